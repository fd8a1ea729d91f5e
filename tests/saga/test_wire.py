"""Sagas against what providers say on the wire, and through the chat's session."""

from countermand.saga import SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.saga.orders import EFFECTS, ORDER_PLAN, standing_kinds
from tests.saga.stage import Stage, call


async def test_a_429_is_tried_again_after_the_pause_that_was_asked_for_and_no_sooner(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("inventory.reserve", "http_429", nth=1, retry_after_s=1)

    handle = await saga_env.start_plan(*ORDER_PLAN[:2])
    report = await handle.result()

    assert report.state is SagaState.COMMITTED
    assert await saga_env.world.fired(fault) == 1
    quoted, reserved = [
        event.event_time.ToDatetime()
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_completed_event_attributes")
    ]
    assert (reserved - quoted).total_seconds() >= 1


async def test_a_key_that_is_in_use_is_waited_for_and_had_its_effect_once(stage: Stage) -> None:
    # The first attempt is given up while the provider still works on it: the second meets its own key in use.
    fault = await stage.world.fault("payments.authorize", "slow", nth=1, delay_s=0.8)

    played = await stage.play(call("hold_money_patiently"), call("hold_stock"))

    assert played.report.state is SagaState.COMMITTED
    assert await stage.world.fired(fault) == 1
    assert played.reached.count("1 do begins") == 2
    assert (await stage.world.done()).count("payments.authorize") == 1


async def test_an_order_through_dropped_and_reset_connections_is_one_order(saga_env: SagaEnv) -> None:
    for operation in ("inventory.reserve", "payments.authorize", "cloud.create_cluster", "dns.register", "mail.send"):
        await saga_env.world.fault(operation, "drop", effect="after", nth=1)
        await saga_env.world.fault(operation, "reset", nth=2)

    report = await saga_env.run_plan(*ORDER_PLAN)

    assert report.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


async def test_a_turn_is_undone_when_its_session_is_cancelled(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("dns.register", "hang", effect="after")
    talk = saga_env.chat()
    ticket = await talk.begin("a small environment in eu-west at one.example.dev for ada@example.com", confirmed=True)
    await until(lambda: saga_env.world.fired(fault))
    await saga_env.world.clear_faults()

    await saga_env.client.get_workflow_handle(talk.chat.session).cancel(reason="closing time")
    turn = await talk.chat.result(ticket)

    assert turn.saga.state is SagaState.COMPENSATED
    assert turn.saga.cancelled
    assert turn.saga.cause is not None
    assert turn.saga.cause.message.endswith("closing time")
    assert await saga_env.world.standing() == []
