"""Holding an order at a point of a step: the world does not answer, and Temporal says that the call is pending."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.agent_saga import AgentSaga
from countermand.agents.team import ORDER_TEAM
from countermand.agents.turn import TurnInput
from countermand.saga import Plan, PlannedSaga
from countermand.saga.names import RECOVER
from countermand.testing.waiting import until
from countermand.tools.world.faults import Fault
from tests.crash.cases import CAPTURE, MAIL, Blow, Case, Moment, Order, Phase
from tests.crash.stage import Stage
from tests.saga.orders import order_plan

TIME_OUT = timedelta(seconds=4)
"""A run's time-out, where that is the blow; less than the worker's client waits for an answer."""

_STATES = {
    Moment.BEFORE: PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
    Moment.AFTER: PendingActivityState.PENDING_ACTIVITY_STATE_STARTED,
    Moment.BETWEEN: PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED,
}

_ARRIVE_S, _RECOVER_S = 4.0, 15.0
"""Seconds within which a batch must be held: the first that came is held for 5, since its client gives up then."""

_SLOW_S = (5.5, 7.0)
"""A slow call has its effect after its caller gave up, who waits 5 seconds."""


class NotHeld(Exception):
    """The order was not where it should be when the blow fell: the case does not count, and is tried again."""


@dataclass
class Held:
    """An order of one case; ``late`` is how many seconds after ``struck`` a slow call may still land."""

    case: Case
    seed: int
    saga_id: str
    draw: Random = field(repr=False)
    fault: Fault | None = None
    late: float = 0.0
    struck: float = 0.0

    @property
    def workflow_id(self) -> str:
        """The workflow that is held."""
        return f"{RECOVER}{self.saga_id}" if self.case.phase is Phase.RECOVERY else self.saga_id


async def begin(stage: Stage, held: Held) -> None:
    """Set the faults of a case and start its order."""
    case, key = held.case, f"{held.saga_id}:{held.case.step}"
    if case.phase is Phase.UNDO:
        fails = MAIL if case.step == CAPTURE else CAPTURE
        operation = "mail.send" if fails == MAIL else "payments.capture"
        await stage.world.fault(operation, "decline", key=f"{held.saga_id}:{fails}")
    if case.phase is Phase.RECOVERY:
        effect = "after" if case.step == CAPTURE else "before"
        held.fault = await stage.world.fault("payments.capture", "hang", key=f"{held.saga_id}:{CAPTURE}", effect=effect)
    else:
        held.fault = await _hold(stage, held, key)
    hostname = f"{held.saga_id}.example.dev"
    given = Plan(steps=order_plan(hostname)) if case.plan is Order.PLAN else _turn(hostname)
    await stage.client.start_workflow(
        PlannedSaga.__name__ if case.plan is Order.PLAN else AgentSaga.__name__,
        given,
        id=held.saga_id,
        task_queue=stage.task_queue,
        run_timeout=TIME_OUT if case.blow is Blow.TIME_OUT else None,
    )


async def arrive(stage: Stage, batch: list[Held]) -> None:
    """Wait until the orders of a batch, all of one phase, are held; some may not get there in time."""
    await _all_fired(stage, batch, within=_ARRIVE_S)
    if batch[0].case.phase is not Phase.RECOVERY:
        return
    for held in batch:
        held.fault = await _hold(stage, held, f"{held.saga_id}:{held.case.step}")
        await stage.client.get_workflow_handle(held.saga_id).terminate("to be recovered")
    await _all_fired(stage, batch, within=_RECOVER_S)


async def check_held(stage: Stage, held: Held) -> None:
    """Prove that the order is held now: its fault fired, and Temporal says that its call is pending.

    Raises:
        NotHeld: It is not.
    """

    async def is_held() -> bool:
        now = await described(stage, held.workflow_id)
        pending = {} if now is None else {one.activity_id: one.state for one in now.raw_description.pending_activities}
        return pending.get(held.case.activity) == _STATES[held.case.moment]

    if held.fault is None or not await stage.world.fired(held.fault):
        raise NotHeld(f"{held.case.name}: did not get there")
    try:
        # The answer that the next try waits for is on its way back when the fault has fired.
        await until(is_held, deadline=0.5)
    except AssertionError as error:
        raise NotHeld(f"{held.case.name}: not held any more") from error


async def described(stage: Stage, workflow_id: str) -> WorkflowExecutionDescription | None:
    """A workflow's newest run, or None if there is none."""
    try:
        return await stage.client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


def runs(execution: WorkflowExecutionDescription | None) -> bool:
    """Whether a workflow is running."""
    return execution is not None and execution.status is WorkflowExecutionStatus.RUNNING


def _turn(hostname: str) -> TurnInput:
    text = f"a medium environment in eu-west for ada@example.com at {hostname}, two load balancers"
    session = hostname.partition(".")[0]
    return TurnInput(text=text, model="stub", team=ORDER_TEAM, session=session, confirmed=True)


async def _hold(stage: Stage, held: Held, key: str) -> Fault:
    case = held.case
    key = key if case.phase is Phase.FORWARD else f"{key}:undo"
    if case.moment is Moment.BETWEEN:
        return await stage.world.fault(case.operation, "http_429", key=key, retry_after_s=6)
    if held.draw.random() < 1 / 3:
        held.late = held.draw.uniform(*_SLOW_S)
        return await stage.world.fault(case.operation, "slow", key=key, effect=case.moment, delay_s=held.late)
    return await stage.world.fault(case.operation, "hang", key=key, effect=case.moment)


async def _all_fired(stage: Stage, batch: list[Held], *, within: float) -> None:
    async def fired() -> bool:
        struck = {fault.id for fault in await stage.world.faults() if fault.fired}
        return all(held.fault is not None and held.fault.id in struck for held in batch)

    # Those that are late are found out, and tried again.
    with suppress(AssertionError):
        await until(fired, deadline=within)
