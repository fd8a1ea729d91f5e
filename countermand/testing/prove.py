"""``prove_rollback``: break a saga at every point, and compare the world before and after."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from enum import StrEnum

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker
from typing_extensions import override

from countermand.agents.agent_saga import AgentSaga
from countermand.agents.team import ORDER_TEAM, Team
from countermand.agents.turn import TurnInput
from countermand.saga import Plan, PlannedSaga, SagaReport, SagaState
from countermand.saga.activities import UNAVAILABLE, StepInput, probe_name
from countermand.saga.history import STEP
from countermand.saga.tool import declared
from countermand.saga.types import Effect, Frozen, Outcome
from countermand.testing.env import SagaEnv

Stage = Callable[[], Awaitable[None]]
Snapshot = Callable[[], Awaitable[Mapping[str, object]]]


class Moment(StrEnum):
    """What happens at a step."""

    BEFORE = "failed before its effect"
    AFTER = "failed after its effect"
    CANCEL = "the saga is cancelled after its effect"
    KILL = "the worker is killed in its undo"


class FaultPoint(Frozen):
    """A step, and what happens at it."""

    step_no: int
    tool: str
    moment: Moment


async def prove_rollback(
    env: SagaEnv,
    what: Plan | str,
    *,
    model: str = "stub",
    team: Team = ORDER_TEAM,
    stage: Stage | None = None,
    snapshot: Snapshot | None = None,
) -> list[FaultPoint]:
    """Run a plan, or an order in plain words, once for each fault point; the world must be the same as before.

    Args:
        env: Servers; its world is emptied before each run.
        what: A plan; or the customer's words, confirmed in advance.
        model: Who takes the words.
        team: Whose agents they are said to.
        stage: Called with the empty world before each run, to set what must be there.
        snapshot: What stands now in a downstream of one's own, by names that a report can use (a row's, say). The
            world's if None.

    Returns:
        The points at which it was broken, in their order.

    Raises:
        AssertionError: Something was left standing, or it does not commit where nothing is in its way.
    """
    given = what if isinstance(what, Plan) else TurnInput(text=what, model=model, team=team, confirmed=True)
    trial = _Trial(env, given, stage, snapshot or env.world.snapshot)
    whole, _, _ = await trial.run(None)
    if whole.state is not SagaState.COMMITTED:
        cause = whole.cause.message if whole.cause else ""
        raise AssertionError(f"nothing was in its way, and it is {whole.state}: {cause}")
    points = _points(whole)
    leaks: list[str] = []
    for point in points:
        report, before, after = await trial.run(point)
        if report.state is not SagaState.COMPENSATED or before != after:
            leaks.append(
                f"step {point.step_no} ({point.tool}), {point.moment}: it is {report.state}; {_changed(before, after)}"
            )
    if leaks:
        raise AssertionError("the rollback leaks:\n" + "\n".join(leaks))
    return points


def _points(whole: SagaReport) -> list[FaultPoint]:
    found: list[FaultPoint] = []
    for step in whole.steps:
        effect = declared()[step.tool].effect
        if step.outcome is not Outcome.DONE or effect is Effect.READ:
            continue
        # Behind an irreversible step there is no way back: it can only fail before.
        moments = [Moment.BEFORE] if effect is Effect.IRREVERSIBLE else [*Moment]
        found += [FaultPoint(step_no=step.no, tool=step.tool, moment=moment) for moment in moments]
        if effect is Effect.IRREVERSIBLE:
            break
    return found


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return "; ".join(f"{name} was {before.get(name)!r}, is {after.get(name)!r}" for name in names)


class _Trial:
    """Runs the same thing again and again, each time with another fault."""

    def __init__(self, env: SagaEnv, given: Plan | TurnInput, stage: Stage | None, snapshot: Snapshot) -> None:
        self._env, self._given, self._stage, self._snapshot = env, given, stage, snapshot

    async def run(self, point: FaultPoint | None) -> tuple[SagaReport, Mapping[str, object], Mapping[str, object]]:
        """The saga's report, and the world before and after."""
        await self._env.world.reset()
        if self._stage is not None:
            await self._stage()
        before = await self._snapshot()
        queue = f"prove-{uuid.uuid4().hex[:12]}"
        breaks = _Breaks(point)
        async with _mortal_worker(self._env.client, queue, breaks):
            saga = await self._start(queue)
            await saga.result()
            report = await saga.query("status", result_type=SagaReport)
        return report, before, await self._snapshot()

    async def _start(self, queue: str) -> WorkflowHandle[object, object]:
        workflow = PlannedSaga if isinstance(self._given, Plan) else AgentSaga
        given = self._given.model_copy(update={"options": self._env.options})
        return await self._env.client.start_workflow(
            workflow.__name__, given, id=self._env.new_id("prove"), task_queue=queue
        )


@asynccontextmanager
async def _mortal_worker(client: Client, queue: str, breaks: "_Breaks") -> AsyncGenerator[None]:
    """A worker that stops when it is to be killed, and another one afterwards."""

    def worker() -> Worker:
        return Worker(
            client,
            task_queue=queue,
            interceptors=[breaks],
            graceful_shutdown_timeout=timedelta(0),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )

    async def succeed() -> None:
        async with AsyncExitStack() as first:
            await first.enter_async_context(worker())
            serving.set()
            await breaks.killed.wait()
        async with worker():
            await asyncio.Event().wait()

    serving = asyncio.Event()
    working = asyncio.create_task(succeed())
    await serving.wait()
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait([working])


class _Breaks(Interceptor):
    """Breaks the activities of one step.

    Args:
        point: Where; None breaks nothing.
    """

    def __init__(self, point: FaultPoint | None) -> None:
        self.point = point
        self.killed = asyncio.Event()

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Breaking(next, self)


class _Breaking(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, breaks: _Breaks) -> None:
        super().__init__(inner)
        self._breaks = breaks

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        point, info = self._breaks.point, activity.info()
        if point is None:
            return await super().execute_activity(input)
        if info.activity_id == f"{STEP}{point.step_no}":
            return await self._forward(input, point)
        if point.moment is Moment.AFTER and _asks_of(point, input):
            # Where it could be asked, the call would be found, and there would be nothing to roll back.
            raise _unavailable()
        done = await super().execute_activity(input)
        dies = point.moment is Moment.KILL and info.activity_id == f"{STEP}{point.step_no}:undo"
        if dies and not self._breaks.killed.is_set():
            self._breaks.killed.set()
            # Until the worker is gone: nobody hears that it was done.
            await asyncio.Event().wait()
        return done

    async def _forward(self, call: ExecuteActivityInput, point: FaultPoint) -> object:
        if point.moment is Moment.BEFORE:
            raise _unavailable()
        done = await super().execute_activity(call)
        if point.moment is Moment.AFTER:
            raise _unavailable()
        saga = activity.client().get_workflow_handle(activity.info().workflow_id or "")
        await saga.cancel(reason="to prove that it is undone")
        return done


def _asks_of(point: FaultPoint, call: ExecuteActivityInput) -> bool:
    """Whether an activity is the probe of the step that is to be broken."""
    given: object = call.args[0] if call.args else None
    probes = activity.info().activity_type == probe_name(declared()[point.tool])
    return probes and isinstance(given, StepInput) and given.call.step_no == point.step_no


def _unavailable() -> ApplicationError:
    return ApplicationError(
        "broken, to prove the rollback", type=UNAVAILABLE, non_retryable=True, category=ApplicationErrorCategory.BENIGN
    )
