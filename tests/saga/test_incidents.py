"""Public incidents, injected as described: the value that was expected is what the world's ledger shows."""

import asyncio

from pydantic import BaseModel

from countermand.saga import PlannedStep, SagaState
from countermand.saga.types import JsonObject
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.cases import read_lines
from tests.saga.orders import ORDER_PLAN, standing_kinds
from tests.saga.stage import Stage, call


class Incident(BaseModel):
    """An incident; ``expected`` names the values that the world must show."""

    id: str
    expected: JsonObject


INCIDENTS = {one.id: one.expected for one in map(Incident.model_validate, read_lines("incidents.jsonl"))}


def test_every_incident_is_injected() -> None:
    injected = {name[5:11].replace("_", "-") for name in globals() if name.startswith("test_inc_")}
    assert injected == set(INCIDENTS)


async def test_inc_01_a_purchase_that_is_confirmed_three_times_is_charged_once(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("payments.authorize", "drop", effect="after", nth=1)
    talk = saga_env.chat()

    text = "a small environment in eu-west at one.example.dev for ada@example.com"
    await asyncio.gather(*(talk.say(text, confirmed=True, turn_id="the-purchase") for _ in range(3)))

    assert (await saga_env.world.done()).count("payments.authorize") == INCIDENTS["inc-01"]["charges_for_o1"]
    assert (await saga_env.world.done()).count("payments.capture") == 1


async def test_inc_03_a_call_that_is_started_again_charges_once(stage: Stage) -> None:
    await stage.play(call("hold_money", "hangs_after"))

    assert (await stage.world.done()).count("payments.authorize") == INCIDENTS["inc-03"]["charges_for_o3"]


async def test_inc_05_a_retry_after_a_lost_answer_authorises_once(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("payments.authorize", "reset", effect="after", nth=1)

    await saga_env.run_plan(*ORDER_PLAN[:3])

    held = [effect for effect in await saga_env.world.standing() if effect.provider == "payments"]
    assert len(held) == INCIDENTS["inc-05"]["open_authorizations_for_o5"]


async def test_inc_07_another_choice_after_a_refusal_is_another_step_with_another_key(stage: Stage) -> None:
    played = await stage.play(call("make_cluster", "refused"), call("make_cluster"), careless=True)

    assert played.report.state is SagaState.COMMITTED
    assert len(await stage.world.standing()) == INCIDENTS["inc-07"]["instances_named_vm1"]
    assert played.standing == {2}


async def test_inc_09_a_saga_undoes_only_what_it_did_itself(stage: Stage) -> None:
    good = await stage.play(call("hold_stock"), call("hold_money"))
    bad = await stage.play(call("hold_stock"), call("hold_money"), call("make_cluster", "refused"))

    assert bad.report.state is SagaState.COMPENSATED
    assert {effect.key for effect in await stage.world.standing()} == {step.key for step in good.report.steps}


async def test_inc_11_every_one_of_several_payments_is_given_back(stage: Stage) -> None:
    await stage.play((call("hold_money"), call("hold_money"), call("hold_money")), call("write_route", "refused"))

    assert (await stage.world.done()).count("payments.void") == INCIDENTS["inc-11"]["refunds"]
    assert len(await stage.world.standing()) == INCIDENTS["inc-11"]["net_charged"]


async def test_inc_13_a_hold_is_released_and_what_was_taken_is_refunded(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("dns.register", "decline", nth=1)
    await saga_env.run_plan(*ORDER_PLAN)
    before_capture = await saga_env.world.done()
    await saga_env.world.fault("mail.send", "decline")
    await saga_env.run_plan(*ORDER_PLAN)
    after_capture = (await saga_env.world.done())[len(before_capture) :]

    assert [name for name in before_capture if name.startswith("payments.")][1:] == ["payments.void"]
    assert [name for name in after_capture if name.startswith("payments.")][2:] == ["payments.refund"]
    assert len(await standing_kinds(saga_env)) == INCIDENTS["inc-13"]["net_charged"]


async def test_inc_15_a_declined_payment_releases_the_stock(saga_env: SagaEnv) -> None:
    start = (await saga_env.world.state()).inventory.plans
    await saga_env.world.fault("payments.authorize", "decline")

    await saga_env.run_plan(*ORDER_PLAN)

    assert len(await saga_env.world.standing()) == INCIDENTS["inc-15"]["reserved_A"]
    assert (await saga_env.world.state()).inventory.plans == start


async def test_inc_17_a_payment_that_arrives_after_the_order_was_undone_is_refused(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "late", "late"))

    assert played.report.state is SagaState.COMPENSATED
    assert "2 late call is refused" in played.reached
    assert await stage.world.standing() == []


async def test_inc_19_what_was_being_made_when_the_saga_was_cancelled_does_not_stay(stage: Stage) -> None:
    played = await stage.play(call("make_cluster", "late"), cancel_at=("1 do begins",))
    again = await stage.play(call("make_cluster"))

    assert "1 late call is refused" in played.reached
    assert again.report.state is SagaState.COMMITTED
    assert [effect.key for effect in await stage.world.standing()] == [again.report.steps[0].key]


async def test_inc_21_a_record_that_stood_before_stands_again(saga_env: SagaEnv) -> None:
    await saga_env.world.seed(records=[{"name": "ada.example.dev", "type": "A", "values": ["192.0.2.7"]}])
    await saga_env.world.fault("payments.capture", "decline")

    report = await saga_env.run_plan(*ORDER_PLAN)

    assert report.state is SagaState.COMPENSATED
    records = (await saga_env.world.state()).dns.records
    assert [record.values for record in records] == [["192.0.2.7"]]


async def test_inc_23_a_cancel_before_the_mail_undoes_everything(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("payments.capture", "slow", effect="after", delay_s=1)
    handle = await saga_env.start_plan(*ORDER_PLAN)
    await until(lambda: saga_env.world.fired(fault))
    await handle.cancel(reason="changed my mind")
    report = await handle.result()

    assert report.state is SagaState.COMPENSATED
    assert report.cancelled
    assert len(await saga_env.world.standing()) == INCIDENTS["inc-23"]["net_charged"]
    assert (await saga_env.world.done()).count("mail.send") == INCIDENTS["inc-23"]["emails"]


async def test_inc_25_an_undo_that_fails_does_not_stop_the_others_and_is_named(stage: Stage) -> None:
    played = await stage.play(
        call("make_cluster"), call("hold_stock", undo=("refused",)), call("hold_money", "refused")
    )

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [left.tool for left in played.report.residuals] == ["hold_stock"]
    assert len(await stage.world.standing()) == INCIDENTS["inc-25"]["reserved_A"]
    assert played.undone == [1]


async def test_inc_27_nobody_is_told_of_an_order_that_there_is_not(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("payments.capture", "decline")
    await saga_env.run_plan(*ORDER_PLAN)
    early: tuple[PlannedStep | tuple[PlannedStep, ...], ...] = (*ORDER_PLAN[:-2], ORDER_PLAN[-1], ORDER_PLAN[-2])
    await saga_env.run_plan(*early)

    assert (await saga_env.world.done()).count("mail.send") == INCIDENTS["inc-27"]["order_placed_emails"]
    assert len(await saga_env.world.standing()) == INCIDENTS["inc-27"]["net_charged"]


async def test_inc_29_a_success_slower_than_its_time_out_is_found_and_not_made_again(stage: Stage) -> None:
    played = await stage.play(call("make_cluster", "hangs_after", "hangs_after"), call("hold_money"))

    assert played.report.state is SagaState.COMMITTED
    assert (await stage.world.done()).count("cloud.create_cluster") == INCIDENTS["inc-29"]["jobs_named_nightly"]
