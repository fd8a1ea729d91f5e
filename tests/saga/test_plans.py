"""A plan that can't be carried out is refused before its first effect, and the answer says why."""

import pytest

from countermand.saga import CauseKind, PlannedStep, SagaState
from countermand.testing.env import SagaEnv, Steps
from countermand.testing.waiting import until
from tests.saga.orders import CAPTURE, ORDER_PLAN, QUOTE

FIRST = ORDER_PLAN[:3]


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (PlannedStep(tool="launch_rocket"), "unknown tool: 'launch_rocket'"),
        (PlannedStep(tool="reserve_stock"), "reserve_stock: quote_id: Field required"),
        (PlannedStep(tool="reserve_stock", args={"quote_id": 7}), "reserve_stock: quote_id: Input should be"),
        (
            PlannedStep(tool="reserve_stock", args={"size": 1}, results={"quote_id": (QUOTE, "quote_id")}),
            "reserve_stock: size: Extra inputs are not permitted",
        ),
        (PlannedStep(tool="reserve_stock", results={"quote_id": (QUOTE, "colour")}), "takes 'colour' from step 1"),
        (PlannedStep(tool="reserve_stock", results={"quote_id": (9, "quote_id")}), "takes 'quote_id' from step 9"),
        (PlannedStep(tool="reserve_stock", results={"quote_id": (0, "quote_id")}), "takes 'quote_id' from step 0"),
        (
            (
                PlannedStep(tool="reserve_stock", results={"quote_id": (QUOTE, "quote_id")}),
                PlannedStep(tool="reserve_stock", results={"quote_id": (4, "reservation_id")}),
            ),
            "takes 'reservation_id' from step 4",
        ),
    ],
)
async def test_a_plan_with_a_fault_has_no_effect(saga_env: SagaEnv, last: Steps, why: str) -> None:
    report = await saga_env.run_plan(*FIRST, last)

    assert report.state is SagaState.COMPENSATED
    assert report.cause is not None
    assert report.cause.kind is CauseKind.INVALID
    assert why in report.cause.message
    assert await saga_env.world.ledger() == []


async def test_a_plan_that_mails_before_all_else_is_done_has_no_effect(saga_env: SagaEnv) -> None:
    early = (*ORDER_PLAN[:-2], ORDER_PLAN[-1], ORDER_PLAN[-2])

    report = await saga_env.run_plan(*early)

    assert report.cause is not None
    assert report.cause.message == (
        "the plan calls capture_payment after send_confirmation, which can't be undone: put that last"
    )
    assert await saga_env.world.ledger() == []


async def test_a_plan_that_is_cancelled_behind_its_pivot_answers_with_its_report(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("inventory.quote", "slow", nth=2, delay_s=1)
    handle = await saga_env.start_plan(*ORDER_PLAN, ORDER_PLAN[0])
    await until(lambda: saga_env.world.fired(fault))
    await handle.cancel()
    report = await handle.result()

    assert report.state is SagaState.COMMITTED
    assert report.cancelled


async def test_calls_that_run_side_by_side_are_numbered_as_they_are_written(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("cloud.create_load_balancer", "slow", nth=1, delay_s=0.3)

    report = await saga_env.run_plan(*ORDER_PLAN[:5], PlannedStep(tool="capture_payment", args={"payment_id": "none"}))

    balancers = [step for step in report.steps if step.tool == "create_load_balancer"]
    assert [step.no for step in balancers] == [5, 6]
    assert [step.undo_no for step in balancers] == [2, 1]
    assert CAPTURE not in {step.no for step in report.steps}
    assert await saga_env.world.standing() == []
