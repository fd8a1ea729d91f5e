"""A tool whose downstream knows no tombstones: it is asked, and undone, by what stands there now."""

from datetime import timedelta

from countermand.saga import ProbeAnswer, Probed, ToolCall, Undone
from countermand.saga.tool import Tool, declare
from countermand.saga.types import CallPolicy, Effect
from countermand.tools import client
from countermand.tools.world.models import inventory
from countermand.tools.world.models.common import Page, Undo
from countermand.tools.world.models.common import Undone as WireUndone
from tests.saga.moments import moments_of
from tests.saga.troubled import STOCK, Effort, Made

START_TO_CLOSE = timedelta(seconds=1)


async def _held(call: ToolCall) -> inventory.Reservation | None:
    listed = await client.read("inventory.list_reservations", Page[inventory.Reservation], limit="100")
    return next((one for one in listed.data if one.key == call.step_key and one.status == "held"), None)


async def _do(call: ToolCall, _args: Effort) -> Made:
    return await STOCK.act(call)


async def _undo(call: ToolCall, _args: Effort, _result: Made | None) -> Undone:
    held = await _held(call)
    if held is None:
        return Undone(effective=False)
    released = WireUndone[inventory.Reservation]
    return client.undone(await client.act("inventory.release", released, Undo(id=held.id), key=call.key))


async def _probe(call: ToolCall, _args: Effort) -> Probed[Made]:
    held = await _held(call)
    await moments_of(call.saga_id).reach(f"{call.step_no} probe ends")
    return Probed(ProbeAnswer.NOT_LANDED) if held is None else Probed(ProbeAnswer.LANDED, Made(id=held.id))


hold_unfenced = Tool(
    name="hold_unfenced",
    description="hold_unfenced",
    effect=Effect.COMPENSABLE,
    args=Effort,
    result=Made,
    forward=_do,
    undo=_undo,
    undo_name="undo_hold_unfenced",
    probe=_probe,
    policy=CallPolicy(start_to_close=START_TO_CLOSE, max_attempts=1),
    fenced=False,
)
declare(hold_unfenced)
