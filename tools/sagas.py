"""Sagas as something to act on: an order that was placed earlier in a conversation can be taken back."""

import re
from datetime import timedelta

from pydantic import Field
from temporalio import activity

from countermand.saga.errors import ToolRefused
from countermand.saga.revoke import NotRevocable, revocable, revocation, revoke
from countermand.saga.types import Frozen, ProbeAnswer, Probed, Residual, SagaReport, SagaState, ToolCall
from countermand.tools.tool import tool

_TURN = re.compile(r"^(?P<session>[^/]+)/t(?P<turn>\d+)$")


class RevokeOrder(Frozen):
    """Which order to take back."""

    saga_id: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._/-]{1,140}$",
        description="The order's saga id; the newest order of this conversation that stands, if left out.",
    )


class RevokedOrder(Frozen):
    """What taking it back came to; ``left`` can't be undone or was not."""

    saga_id: str
    state: SagaState
    left: tuple[Residual, ...]


async def _find_revocation(call: ToolCall, args: RevokeOrder) -> Probed[RevokedOrder]:
    saga_id = await _chosen(call, args)
    made = await revocation(activity.client(), saga_id) if saga_id else None
    if made is None or made.by != call.step_key:
        return Probed(ProbeAnswer.NOT_LANDED)
    if made.report is None:
        return Probed(ProbeAnswer.UNKNOWN)
    return Probed(ProbeAnswer.LANDED, _answer(made.report))


@tool(effect="irreversible", probe=_find_revocation, approval="never", start_to_close=timedelta(minutes=2))
async def revoke_order(call: ToolCall, args: RevokeOrder) -> RevokedOrder:
    """Take back an order that was placed earlier in this conversation: everything it did is undone, in reverse."""
    saga_id = await _chosen(call, args)
    if saga_id is None:
        raise ToolRefused("there is no order in this conversation that stands")
    try:
        report = await revoke(
            activity.client(), saga_id, by=call.step_key, actor="customer", reason="the customer took it back"
        )
    except NotRevocable as error:
        raise ToolRefused(str(error)) from error
    return _answer(report)


async def _chosen(call: ToolCall, args: RevokeOrder) -> str | None:
    """The order that is meant: of this conversation, and the same for every attempt of this step."""
    turn = _TURN.match(call.saga_id)
    if turn is None:
        return None
    earlier = [f"{turn['session']}/t{number}" for number in range(int(turn["turn"]) - 1, 0, -1)]
    if args.saga_id is not None:
        # A conversation may take back its own orders, and no one else's.
        return args.saga_id if args.saga_id in earlier else None
    for saga_id in earlier:
        made = await revocation(activity.client(), saga_id)
        if made is not None and made.by != call.step_key:
            continue
        if await revocable(activity.client(), saga_id):
            return saga_id
    return None


def _answer(report: SagaReport) -> RevokedOrder:
    return RevokedOrder(saga_id=report.id, state=report.state, left=report.residuals)
