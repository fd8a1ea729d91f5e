"""The judge: whether an order that was struck ended as the invariants demand, by the world's own ledger."""

from temporalio.client import WorkflowExecutionStatus

from countermand.saga.names import RECOVER
from countermand.saga.reading import read_saga
from countermand.saga.state import SAGA_STATE
from countermand.saga.types import SagaState
from countermand.tools.world.control import State
from countermand.tools.world.ledger import LedgerEntry
from tests.crash.cases import Blow, Phase
from tests.crash.holding import Held, described
from tests.crash.stage import Stage
from tests.saga.orders import EFFECTS

_FINAL = {SagaState.COMMITTED, SagaState.COMPENSATED, SagaState.NEEDS_ATTENTION}


async def end_state(stage: Stage, saga_id: str) -> SagaState | None:
    """The state in which a saga ended, by its own workflow or by its recovery; None while it has no end."""
    for name in (saga_id, f"{RECOVER}{saga_id}"):
        now = await described(stage, name)
        if now is None or now.status is WorkflowExecutionStatus.RUNNING:
            return None
        state = now.typed_search_attributes.get(SAGA_STATE)
        if state in _FINAL:
            return SagaState(state)
    return None


async def violations(stage: Stage, held: Held, end: SagaState, world: State) -> list[str]:
    """What is wrong with an order that ended; empty if nothing is."""
    mine = [entry for entry in world.ledger if (entry.key or "").startswith(f"{held.saga_id}:")]
    standing = sorted(effect.kind for effect in world.standing if effect.key.startswith(f"{held.saga_id}:"))
    detail = await read_saga(stage.client, held.saga_id)
    found: list[str] = []
    if detail.state is not end:
        found.append(f"it reads {detail.state}, but ended {end}")
    if end is SagaState.COMMITTED and standing != EFFECTS_SORTED:
        found.append(f"I2: committed, but what stands is {standing}")
    if end is SagaState.COMPENSATED and standing:
        found.append(f"I2: compensated, but there stand {standing}")
    if end is SagaState.NEEDS_ATTENTION:
        left = {residual.key for residual in detail.residuals}
        found.append(f"I10: it needs attention although all is mended: {left}, and there stand {standing}")
    found += _repeated(mine)
    found += _out_of_order(mine)
    if held.case.blow is Blow.CANCEL and held.case.phase is not Phase.RECOVERY:
        now = await described(stage, held.saga_id)
        if now is None or now.status is not WorkflowExecutionStatus.COMPLETED:
            found.append("a cancelled saga did not complete by itself")
    return found


EFFECTS_SORTED = sorted(EFFECTS)


def _repeated(entries: list[LedgerEntry]) -> list[str]:
    """I1 and I3: one effect a step, and at most one undo of it."""
    seen: set[tuple[str, str]] = set()
    found: list[str] = []
    for entry in entries:
        what = (entry.direction, _step_key(entry))
        if what in seen:
            found.append(f"I1: {entry.operation} had its effect twice under {entry.key}")
        seen.add(what)
    return found


def _out_of_order(entries: list[LedgerEntry]) -> list[str]:
    """I3: undos strictly in reverse order of the steps."""
    undone = [int(_step_key(entry).rpartition(":")[2]) for entry in entries if entry.direction == "undo"]
    return [] if undone == sorted(undone, reverse=True) else [f"I3: undone in the order {undone}"]


def _step_key(entry: LedgerEntry) -> str:
    """The key of the step that an effect or an undo belongs to."""
    return (entry.key or "").partition(":undo")[0]
