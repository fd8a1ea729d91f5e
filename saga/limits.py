"""What a tenant may order in a day: a workflow of its own holds a place for every order, across all sagas."""

from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum

from pydantic import Field
from temporalio import workflow
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.names import LIMITS
from countermand.saga.types import ID_PATTERN, Frozen, Limit, Money

KEPT_FOR = timedelta(days=2)
"""How long after its end a day still takes places back; later there is nothing to gain by it."""


class Place(StrEnum):
    """What became of a reservation. ``released`` is for good: a late reservation under its key is refused."""

    HELD = "held"
    FULL = "full"
    RELEASED = "released"


class Reservation(Frozen):
    """One order that wants a place. ``key`` is its step's, so that it takes one place however often it is asked for."""

    key: str
    price: Money
    limit: Limit


class Reserved(Frozen):
    """What a reservation came to; the reason is for whoever ordered."""

    key: str
    place: Place
    price: Money | None = None
    reason: str = ""


class LimitsInput(Frozen):
    """The day, and what was decided in it so far."""

    tenant: str = Field(pattern=ID_PATTERN)
    day: date
    reserved: tuple[Reserved, ...] = ()


@workflow.defn
class LimitsWorkflow:
    """One tenant's day. It takes reservations and releases one by one, in the order in which they come."""

    @workflow.init
    def __init__(self, start: LimitsInput) -> None:
        self._start = start
        self._reserved = {one.key: one for one in start.reserved}
        self._over = datetime.combine(start.day, time(), UTC) + timedelta(days=1) + KEPT_FOR

    @workflow.run
    async def run(self, start: LimitsInput) -> None:
        """Serve until some time after the day."""
        try:
            await workflow.wait_condition(
                workflow.info().is_continue_as_new_suggested, timeout=max(timedelta(), self._over - workflow.now())
            )
        except TimeoutError:
            return
        carried = tuple(one for one in self._reserved.values() if one.place is not Place.FULL)
        workflow.continue_as_new(start.model_copy(update={"reserved": carried}))

    @workflow.signal
    def reserve(self, wanted: Reservation) -> None:
        """Take a place, if there is one."""
        if wanted.key in self._reserved:
            return
        reason = self._full(wanted)
        place = Place.FULL if reason else Place.HELD
        self._reserved[wanted.key] = Reserved(key=wanted.key, place=place, price=wanted.price, reason=reason)

    @workflow.signal
    def release(self, key: str) -> None:
        """Give a place back; a reservation that comes after it is refused."""
        self._reserved[key] = Reserved(key=key, place=Place.RELEASED, reason="its saga was undone")

    @workflow.query
    def reserved(self, key: str) -> Reserved | None:
        """What a reservation came to."""
        return self._reserved.get(key)

    @workflow.query
    def held(self) -> tuple[Reserved, ...]:
        """The places that are taken."""
        return tuple(one for one in self._reserved.values() if one.place is Place.HELD)

    def _full(self, wanted: Reservation) -> str:
        """Why there is no place, or nothing."""
        held = self.held()
        count, money, day = wanted.limit.count, wanted.limit.money, self._start.day.isoformat()
        if workflow.now() >= self._over:
            # What was held in it is not known any more: an approval can come that late.
            return f"the day {day}, in whose limit it was to count, is long over: order again"
        if count is not None and len(held) >= count:
            return f"the limit of {count} orders on {day} is reached; it begins anew at midnight UTC"
        if money is None:
            return ""
        if wanted.price.currency != money.currency:
            return f"the limit of {money} a day can't be held against a price of {wanted.price}"
        spent = sum(one.price.amount for one in held if one.price and one.price.currency == money.currency)
        if spent + wanted.price.amount > money.amount:
            left = Money(amount=max(0, money.amount - spent), currency=money.currency)
            return f"the limit of {money} on {day} leaves {left}, and this costs {wanted.price}"
        return ""


async def reserve(client: Client, start: LimitsInput, wanted: Reservation, *, task_queue: str) -> Reserved:
    """Take a place in a tenant's day, starting the day if nobody has; the same key answers the same."""
    handle = await client.start_workflow(
        LimitsWorkflow.run,
        start,
        id=_id(start.tenant, start.day),
        task_queue=task_queue,
        start_signal="reserve",
        start_signal_args=[wanted],
    )
    # A query sees every signal that came before it.
    made = await handle.query(LimitsWorkflow.reserved, wanted.key)
    if made is None:
        raise LookupError(f"the reservation {wanted.key} was not taken")
    return made


async def reserved(client: Client, tenant: str, day: date, key: str) -> Reserved | None:
    """What a reservation came to, or None where there was none."""
    try:
        return await client.get_workflow_handle_for(LimitsWorkflow.run, _id(tenant, day)).query(
            LimitsWorkflow.reserved, key
        )
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None


async def release(client: Client, start: LimitsInput, key: str, *, task_queue: str) -> Reserved | None:
    """Give a place back; answers what had been reserved under the key."""
    before = await reserved(client, start.tenant, start.day, key)
    await client.start_workflow(
        LimitsWorkflow.run,
        start,
        id=_id(start.tenant, start.day),
        task_queue=task_queue,
        start_signal="release",
        start_signal_args=[key],
    )
    return before


def _id(tenant: str, day: date) -> str:
    return f"{LIMITS}{tenant}/{day.isoformat()}"
