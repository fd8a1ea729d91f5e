"""The janitor: finds sagas whose workflow closed without an end, and starts their recovery."""

from datetime import UTC, datetime, timedelta

from pydantic import Field
from temporalio import activity, workflow
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.activities import HEARTBEAT_TIMEOUT, heartbeats
from countermand.saga.ledger import Step
from countermand.saga.names import RECOVER, RESIDUALS, beside, saga_of
from countermand.saga.reading import all_steps, described, ended_as, quoted
from countermand.saga.recovery import RecoveryInput, RecoverySaga
from countermand.saga.residuals import hold, resume_residuals
from countermand.saga.revoke import resume_revocation
from countermand.saga.stuck import stuck_sagas
from countermand.saga.tool import declared
from countermand.saga.types import Cause, CauseKind, Frozen, SagaOptions, SagaState

VISIBILITY_LAG = timedelta(minutes=1)
"""How late a closed workflow may show up in a listing."""

SWEEP_EVERY = timedelta(seconds=10)
OVERDUE_AFTER = timedelta(minutes=1)
"""How often the schedule sweeps, and how old the last sweep may be before somebody should look why."""

FULL_SWEEP_EVERY = 60
"""One sweep in so many looks at all closed sagas that retention still holds, not only at the lately closed."""

_SCHEDULE = "janitor"
_UNENDED = {SagaState.OPEN, SagaState.COMPENSATING}


class SweepInput(Frozen):
    """From when on closed workflows are looked at; all of them if None. ``saga_id`` looks at one saga only."""

    since: datetime | None = None
    saga_id: str | None = None
    options: SagaOptions = SagaOptions()


class Sweep(Frozen):
    """What a sweep did."""

    began: datetime
    number: int = 1
    examined: int = 0
    recovered: tuple[str, ...] = ()
    problems: tuple[str, ...] = Field(default=(), description="Sagas that could not be examined, and why.")
    stuck: tuple[str, ...] = Field(default=(), description="Running sagas that no worker gets on with.")


class JanitorHealth(Frozen):
    """When the janitor last swept, and what is wrong with it; an empty ``problem``: nothing."""

    last_sweep: datetime | None = None
    problem: str = ""


async def sweep(client: Client, look: SweepInput) -> Sweep:
    """Start the recovery of every saga that closed without an end; safe beside another janitor.

    Errors of one saga do not stop the others; they are in ``problems``, and the next sweep tries again.
    """
    began = datetime.now(UTC)
    unended = f"SagaState IN ({', '.join(map(quoted, sorted(_UNENDED)))}) AND ExecutionStatus != 'Running'"
    dropped = f"SagaState = {quoted(SagaState.NEEDS_ATTENTION)} AND ExecutionStatus IN ('Terminated', 'TimedOut')"
    query = f"(({unended}) OR ({dropped}))"
    if look.since is not None:
        query += f" AND CloseTime >= '{look.since.isoformat()}'"
    if look.saga_id is not None:
        query += f" AND WorkflowId IN ({', '.join(map(quoted, beside(look.saga_id)))})"
    lost = {saga_of(execution.id) async for execution in client.list_workflows(query)}
    recovered: list[str] = []
    problems: list[str] = []
    for saga_id in sorted(lost):
        try:
            if await recover(client, saga_id, look.options):
                recovered.append(saga_id)
        except Exception as error:  # noqa: BLE001 - it is reported, and tried again by the next sweep
            problems.append(f"{saga_id}: {type(error).__name__}: {error}")
    stuck = await stuck_sagas(client)
    return Sweep(began=began, examined=len(lost), recovered=tuple(recovered), problems=tuple(problems), stuck=stuck)


async def recover(client: Client, saga_id: str, options: SagaOptions | None = None) -> bool:
    """Start one saga's recovery, if it needs one and has none; answers whether it was started.

    It acts only when no run of the id is running (a reset leaves a terminated run beside a live one) and the newest
    run did not reach an end; the ledgers of all runs of the id, and of earlier recoveries, are taken together. Where it
    did, a revocation or residuals that were cut off go on, and what it left is held.
    """
    newest = await described(client, saga_id)
    if newest is None:
        return await resume_residuals(client, saga_id)
    recovery = await described(client, f"{RECOVER}{saga_id}")
    if WorkflowExecutionStatus.RUNNING in {newest.status, recovery.status if recovery else None}:
        return False
    state = ended_as(newest, recovery)
    if state not in _UNENDED:
        # Full sweeps come by every saga that was ever lost: its histories need not be read again.
        went_on = await resume_revocation(client, saga_id) or await resume_residuals(client, saga_id)
        return went_on or (state is SagaState.NEEDS_ATTENTION and await _held(client, newest, options))
    steps = await all_steps(client, saga_id)
    unknown = sorted({step.tool for step in steps} - set(declared()))
    if unknown:
        raise LookupError(f"this worker does not know the tools {', '.join(unknown)}: load the pack that has them")
    if not steps:
        return False
    status = newest.status.name.lower() if newest.status else "closed"
    lost = RecoveryInput(
        saga_id=saga_id,
        reason=f"the saga's workflow was {status}",
        closed_as=status,
        found=state or SagaState.OPEN,
        steps=tuple(steps),
        options=options or SagaOptions(),
    )
    # One that has ended, before the saga was reset and lost once more, is followed by another.
    ended = recovery is not None and recovery.status is WorkflowExecutionStatus.COMPLETED
    again = WorkflowIDReusePolicy.ALLOW_DUPLICATE if ended else WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
    try:
        await client.start_workflow(
            RecoverySaga.run,
            lost,
            id=f"{RECOVER}{saga_id}",
            task_queue=newest.task_queue,
            id_reuse_policy=again,
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


async def _held(client: Client, lost: WorkflowExecutionDescription, options: SagaOptions | None) -> bool:
    """Hold what a saga left that was cut off before it could; answers whether nobody did."""
    if lost.status is WorkflowExecutionStatus.COMPLETED or await described(client, f"{RESIDUALS}{lost.id}") is not None:
        return False
    left = tuple(step for step in await all_steps(client, lost.id) if Step.of(step).may_stand)
    await hold(
        client,
        lost.id,
        left,
        cause=Cause(kind=CauseKind.TERMINATED, message="the saga's workflow was cut off when it needed attention"),
        mended=SagaState.COMPENSATED,
        task_queue=lost.task_queue,
        options=options or SagaOptions(),
    )
    return True


async def schedule_janitor(
    client: Client, options: SagaOptions, *, task_queue: str, every: timedelta = SWEEP_EVERY
) -> None:
    """Make the schedule that runs the janitor, or set its interval anew where it exists."""
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(Janitor.run, options, id=_SCHEDULE, task_queue=task_queue),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=1)),
    )
    try:
        await client.create_schedule(_SCHEDULE, schedule)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(_SCHEDULE).update(lambda _: ScheduleUpdate(schedule))


async def janitor_health(client: Client) -> JanitorHealth:
    """When the janitor swept last. A sweep that never ends, for want of a worker, is not followed by another."""
    try:
        janitor = await client.get_schedule_handle(_SCHEDULE).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return JanitorHealth(problem="there is no janitor: 'countermand setup' makes its schedule")
    actions = janitor.info.recent_actions
    last = actions[-1].started_at if actions else janitor.info.created_at
    age = datetime.now(UTC) - last
    problem = ""
    if janitor.schedule.state.paused:
        problem = "the janitor is paused: lost sagas stay as they are until its schedule goes on"
    elif age > OVERDUE_AFTER:
        seconds = age.total_seconds()
        problem = f"the janitor last swept {seconds:.0f} s ago: is a worker running on its task queue?"
    return JanitorHealth(last_sweep=last, problem=problem)


@activity.defn(name="sweep")
async def sweep_activity(look: SweepInput) -> Sweep:
    """``sweep`` as an activity of the janitor's workflow."""
    async with heartbeats():
        swept = await sweep(activity.client(), look)
    for alert in (*swept.problems, *swept.stuck):
        activity.logger.error("needs a person: %s", alert)
    return swept


@workflow.defn
class Janitor:
    """One sweep; a Temporal Schedule runs it again and again, and hands each run its predecessor's result."""

    @workflow.run
    async def run(self, options: SagaOptions) -> Sweep:
        """Sweep what closed since the last sweep; now and then, everything."""
        last = workflow.get_last_completion_result(Sweep) if workflow.has_last_completion_result() else None
        number = last.number + 1 if last else 1
        full = last is None or number % FULL_SWEEP_EVERY == 0
        done = await workflow.execute_activity(
            sweep_activity,
            SweepInput(since=None if full or last is None else last.began - VISIBILITY_LAG, options=options),
            start_to_close_timeout=timedelta(minutes=5),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(maximum_attempts=3),
        )
        return done.model_copy(update={"number": number})
