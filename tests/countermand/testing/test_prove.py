"""``prove_rollback``: a sound plan passes at every point, and a planted leak is found."""

import dataclasses

import pytest

from countermand.saga import Plan, PlannedStep
from countermand.saga.tool import declare
from countermand.saga.types import ToolCall, Undone
from countermand.testing.env import SagaEnv
from countermand.testing.prove import Moment, prove_rollback
from countermand.tools.inventory import Reservation, ReserveStock, reserve_stock

QUOTE = PlannedStep(
    tool="quote_order",
    args={"plan": "small", "region": "eu-west", "email": "ada@example.com", "hostname": "ada.example.dev"},
)
FROM_QUOTE: dict[str, tuple[int, str] | list[tuple[int, str]]] = {"quote_id": (1, "quote_id")}


async def _forget(call: ToolCall, args: ReserveStock, result: object) -> Undone:
    return Undone(effective=True, detail=f"{call.key}: {args.quote_id} {result}")


async def _reserve(call: ToolCall, args: ReserveStock) -> Reservation:
    return await reserve_stock.forward(call, args)


LEAKY = dataclasses.replace(
    reserve_stock,
    name="leaky_reserve",
    forward=_reserve,
    undo=_forget,
    undo_name="leaky_release",
    list_effects=None,
)
declare(LEAKY)


async def test_a_plan_that_rolls_back_is_proved_at_every_point(saga_env: SagaEnv) -> None:
    hold = PlannedStep(tool="reserve_stock", results=FROM_QUOTE)
    pay = PlannedStep(tool="authorize_payment", results=FROM_QUOTE)

    points = await prove_rollback(saga_env, Plan(steps=(QUOTE, hold, pay)))

    assert [(point.step_no, point.moment) for point in points] == [(no, moment) for no in (2, 3) for moment in Moment]


async def test_an_undo_that_only_says_that_it_undid_is_found(saga_env: SagaEnv) -> None:
    plan = Plan(steps=(QUOTE, PlannedStep(tool="leaky_reserve", results=FROM_QUOTE)))

    with pytest.raises(AssertionError) as leaks:
        await prove_rollback(saga_env, plan)

    lines = str(leaks.value).splitlines()[1:]
    assert [line.partition(":")[0] for line in lines] == [
        f"step 2 (leaky_reserve), {moment}" for moment in (Moment.AFTER, Moment.CANCEL, Moment.KILL)
    ]
    assert "reservation" in lines[0]


async def test_what_does_not_commit_by_itself_proves_nothing(saga_env: SagaEnv) -> None:
    pay = PlannedStep(tool="authorize_payment", args={"card_token": "tok_decline"}, results=FROM_QUOTE)

    with pytest.raises(AssertionError, match="nothing was in its way, and it is compensated"):
        await prove_rollback(saga_env, Plan(steps=(QUOTE, pay)))


async def test_what_a_downstream_of_ones_own_is_left_with_is_told_by_name(saga_env: SagaEnv) -> None:
    plan = Plan(steps=(QUOTE, PlannedStep(tool="reserve_stock", results=FROM_QUOTE)))
    looked: list[str] = []

    async def look() -> dict[str, object]:
        looked.append("once")
        return {"shelf A": "books", "shelf B": len(looked)}

    with pytest.raises(AssertionError) as leaks:
        await prove_rollback(saga_env, plan, snapshot=look)

    assert str(leaks.value).splitlines()[1].endswith("it is compensated; shelf B was 3, is 4")
