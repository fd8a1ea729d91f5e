"""A tenant's daily limit as a step: taken before an order is charged, given back by whatever undoes the order.

No agent holds this tool: the turn runs it for them. Being a step, it is undone by rollback, recovery and revocation.
"""

from datetime import date

from pydantic import Field
from temporalio import activity

from countermand.saga.errors import ToolRefused
from countermand.saga.limits import LimitsInput, Place, Reservation, release, reserve, reserved
from countermand.saga.types import ID_PATTERN, Frozen, Limit, Money, ProbeAnswer, Probed, ToolCall, Undone
from countermand.tools.tool import tool


class ReserveLimit(Frozen):
    """An order that is to count against its tenant's day (UTC)."""

    tenant: str = Field(pattern=ID_PATTERN)
    day: date
    price: Money
    limit: Limit


class LimitReserved(Frozen):
    """A place that is held."""

    price: Money


async def release_limit(call: ToolCall, args: ReserveLimit, _result: LimitReserved | None) -> Undone:
    """Give the place back."""
    start = LimitsInput(tenant=args.tenant, day=args.day)
    before = await release(activity.client(), start, call.step_key, task_queue=activity.info().task_queue)
    return Undone(effective=before is not None and before.place is Place.HELD)


async def _find_place(call: ToolCall, args: ReserveLimit) -> Probed[LimitReserved]:
    made = await reserved(activity.client(), args.tenant, args.day, call.step_key)
    if made is None or made.place is not Place.HELD:
        return Probed(ProbeAnswer.NOT_LANDED)
    return Probed(ProbeAnswer.LANDED, LimitReserved(price=args.price))


@tool(effect="compensable", compensate=release_limit, probe=_find_place)
async def reserve_limit(call: ToolCall, args: ReserveLimit) -> LimitReserved:
    """Count an order against its tenant's limit of the day."""
    start = LimitsInput(tenant=args.tenant, day=args.day)
    wanted = Reservation(key=call.key, price=args.price, limit=args.limit)
    made = await reserve(activity.client(), start, wanted, task_queue=activity.info().task_queue)
    if made.place is not Place.HELD:
        raise ToolRefused(made.reason)
    return LimitReserved(price=args.price)
