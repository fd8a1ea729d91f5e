"""Langchain tools: checked at registration, then a step and its undo in a saga."""

from collections.abc import AsyncGenerator

import pytest
from langchain_core.tools import BaseTool, ToolException, tool
from pydantic import BaseModel
from temporalio.client import Client

from countermand.saga import PlannedStep, SagaState, ToolDeclarationError
from countermand.saga.types import Compensation, JsonObject, Outcome, ProbeAnswer, Probed, ToolCall
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.adapt import from_langchain

from .served import served
from .shop import Shop

SHOP = Shop()


class Booking(BaseModel):
    """What was booked."""

    payment_id: str


@tool
async def book_seat(amount: int, idempotency_key: str) -> Booking:
    """Book a seat; the amount is in cents."""
    if amount > 1000:
        raise ToolException("the house is sold out")
    return Booking(payment_id=SHOP.charge(amount, idempotency_key).payment_id)


@tool
def cancel_seat(payment_id: str, idempotency_key: str) -> dict[str, bool]:
    """Cancel a seat."""
    return {"effective": SHOP.take_back(payment_id, idempotency_key).effective}


@tool
def seats_left() -> int:
    """How many seats are left."""
    return 7


@pytest.fixture
async def house(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    async def find(call: ToolCall, _args: JsonObject) -> Probed[Booking]:
        payment_id = f"pay-{call.step_key}"
        if payment_id in SHOP.paid:
            return Probed(ProbeAnswer.LANDED, Booking(payment_id=payment_id))
        return Probed(ProbeAnswer.NOT_LANDED)

    from_langchain(book_seat, result=Booking, compensate=cancel_seat, probe=find)
    from_langchain(seats_left, effect="read")
    SHOP.paid.clear()
    SHOP.books.clear()
    async with served(temporal_local, world) as env:
        yield env


async def test_a_langchain_tool_is_undone_by_another_with_a_field_of_its_answer(house: SagaEnv) -> None:
    report = await house.run_plan(
        PlannedStep(tool="seats_left"),
        PlannedStep(tool="book_seat", args={"amount": 149}),
        PlannedStep(tool="reserve_stock", args={"quote_id": "no-such-quote"}),
    )

    key = f"{report.id}:2"
    assert report.state is SagaState.COMPENSATED
    assert report.steps[1].compensation is Compensation.DONE
    assert SHOP.books == [(key, "do"), (f"{key}:undo", "undo")]
    assert SHOP.paid == {}


async def test_what_it_raises_as_its_no_is_a_refusal(house: SagaEnv) -> None:
    report = await house.run_plan(PlannedStep(tool="book_seat", args={"amount": 5000}))

    assert report.steps[0].outcome is Outcome.REFUSED
    assert report.cause is not None
    assert "the house is sold out" in report.cause.message


@pytest.mark.parametrize(
    ("compensate", "message"),
    [
        (cancel_seat, "needs 'payment_id', which is neither an argument of the call"),
        (None, "tool 'book_seat' is compensable but has no compensation"),
    ],
)
def test_what_could_not_be_undone_is_refused(compensate: BaseTool | None, message: str) -> None:
    with pytest.raises(ToolDeclarationError, match=message):
        from_langchain(book_seat, compensate=compensate)


def test_what_can_not_be_unsent_needs_a_probe() -> None:
    with pytest.raises(ToolDeclarationError, match="tool 'book_seat' is irreversible but has no probe"):
        from_langchain(book_seat, effect="irreversible")


def test_a_read_takes_no_compensation() -> None:
    with pytest.raises(ToolDeclarationError, match="tool 'seats_left' is read: it takes no compensation"):
        from_langchain(seats_left, effect="read", compensate=cancel_seat)
