"""``Swarm``: one agent saga on every line of a batch; bounded, and resumable after any loss."""

import asyncio
import math
from bisect import bisect_right
from collections import Counter, deque
from typing import NamedTuple

from pydantic import Field
from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ParentClosePolicy

from countermand.agents.agent_saga import AgentSaga
from countermand.agents.batch import Line
from countermand.agents.lines import LOST, Amounts, LineEnd, awaited_end, end_of
from countermand.agents.pages import BatchRef, Page, page_of
from countermand.agents.team import ORDER_TEAM, Team
from countermand.agents.turn import TurnInput
from countermand.agents.turn_input import ModelQueue
from countermand.saga import SagaOptions, SagaState
from countermand.saga.tasks import uninterrupted
from countermand.saga.types import Frozen

LINES_PER_RUN = 500
"""Continue as new long before the limits of a run (51,200 events, 50 MB); a line is about 12 KB of history."""

MAX_CONCURRENCY = 500
"""Sagas at once; the server lets a workflow have 2,000 children pending."""


class StopAfter(Frozen):
    """How many lines may fail before the swarm pauses itself: a number, or a share of all lines."""

    lines: int | None = Field(default=None, ge=1)
    percent: float | None = Field(default=None, gt=0, le=100)

    def reached(self, failed: int, lines: int) -> bool:
        """Whether so many failed lines are enough."""
        bound = self.lines if self.percent is None else math.ceil(lines * self.percent / 100)
        return bound is not None and failed >= bound


class Ended(NamedTuple):
    """A line that ended: its place in the batch, counted from 0, and at which attempt.

    In JSON it is an array: a swarm hands one for every line over from run to run, and a payload holds 2 MB.
    """

    place: int
    attempt: int
    state: SagaState


class SwarmState(Frozen):
    """A swarm's settings, and how far it is: its start input, what it carries over, and its result."""

    batch: BatchRef
    model: str
    team: Team = ORDER_TEAM
    model_queue: ModelQueue = None
    options: SagaOptions = SagaOptions()
    concurrency: int = Field(default=32, ge=1, le=MAX_CONCURRENCY)
    lines_per_run: int = Field(default=LINES_PER_RUN, ge=1)
    stop_after: StopAfter | None = None
    paused: str = Field(default="", description="Why no line is started; empty if lines are.")
    stopped: bool = Field(default=False, description="Whether it paused by itself, after too many failures.")
    cancelled: bool = False
    next: int = Field(default=0, description="The place of the next line that was never started.")
    again: tuple[int, ...] = Field(default=(), description="Places to start, or to look after, before that.")
    ended: tuple[Ended, ...] = Field(default=(), description="In the order in which they ended.")
    failed: int = Field(default=0, description="Lines that failed since the start, or since the last resume.")
    taken: Amounts = Field(default={})
    returned: Amounts = Field(default={})

    def failures(self) -> tuple[int, ...]:
        """The places of lines whose last attempt was wholly undone, which can be tried again."""
        last = {one.place: one.state for one in self.ended}
        return tuple(place for place, state in last.items() if state is SagaState.COMPENSATED)


class SwarmStatus(Frozen):
    """A swarm at a glance; ``states`` counts lines by how their last attempt ended."""

    batch: BatchRef
    running: int
    states: dict[SagaState, int]
    attempts: int = Field(description="Entries of the list of ended lines.")
    paused: str
    stopped: bool
    cancelled: bool
    taken: Amounts
    returned: Amounts

    @property
    def ended(self) -> int:
        """Lines that have ended."""
        return sum(self.states.values())


def status_of(state: SwarmState, *, running: int = 0) -> SwarmStatus:
    """A swarm at a glance, from its state."""
    last = {one.place: one.state for one in state.ended}
    return SwarmStatus(
        batch=state.batch,
        running=running,
        states=dict(Counter(last.values())),
        attempts=len(state.ended),
        paused=state.paused,
        stopped=state.stopped,
        cancelled=state.cancelled,
        taken=state.taken,
        returned=state.returned,
    )


def saga_id(batch: str, line: Line, attempt: int) -> str:
    """The saga of a line: another attempt is another saga, since saga ids are reused by nobody."""
    return f"{batch}/{line.id}" if attempt == 1 else f"{batch}/{line.id}/{attempt}"


@workflow.defn
class Swarm:
    """Starts the lines of a batch as places come free, and keeps the score.

    A line that was started before, by this run or by one that is gone, is not started again but looked after: its
    saga's id is the line's, and the server refuses a duplicate. So nothing that befalls a swarm does a line twice.
    """

    @workflow.init
    def __init__(self, start: SwarmState) -> None:
        self._start = start
        self._paused, self._stopped = start.paused, start.stopped
        self._cancelled = False
        self._next = start.next
        self._again = deque(start.again)
        self._ended = list(start.ended)
        self._attempts = Counter(one.place for one in start.ended)
        self._failed = start.failed
        self._taken, self._returned = Counter(start.taken), Counter(start.returned)
        self._running: dict[int, str] = {}
        self._known: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pages: dict[int, Page] = {}
        self._begun = 0

    @workflow.run
    async def run(self, start: SwarmState) -> SwarmState:  # noqa: ARG002 - taken by __init__
        """Run all lines to their ends; answers the final state, in which ``ended`` has one entry an attempt."""
        work = asyncio.create_task(self._work())
        try:
            await asyncio.shield(work)
            # The next run looks after the sagas of this one, so all must have begun.
            await workflow.wait_condition(lambda: self._running.keys() <= self._known)
        except asyncio.CancelledError:
            self._cancelled = True
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            await uninterrupted(asyncio.create_task(self._cancel_running()))
            await uninterrupted(work)
            await uninterrupted(asyncio.create_task(workflow.wait_condition(lambda: not self._running)))
        if self._left and not self._cancelled:
            workflow.continue_as_new(self._state(looked_after=tuple(self._running)))
        return self._state()

    @workflow.signal
    def pause(self, reason: str) -> None:
        """Start no more lines; those that run end."""
        self._paused = reason

    @workflow.signal
    def resume(self) -> None:
        """Start lines again."""
        self._paused, self._stopped, self._failed = "", False, 0

    @workflow.signal
    def retry(self) -> None:
        """Try the failed lines again: those that were wholly undone."""
        waiting = {*self._again, *self._running}
        self._again.extend(place for place in self._state().failures() if place not in waiting)
        self.resume()

    @workflow.query
    def status(self) -> SwarmStatus:
        """The swarm at a glance."""
        return status_of(self._state(), running=len(self._running))

    @workflow.query
    def ended(self, since: int) -> tuple[Ended, ...]:
        """The lines that ended, in their order, without the first ``since``."""
        return tuple(self._ended[since:])

    @property
    def _left(self) -> bool:
        return bool(self._running or self._again) or self._next < self._start.batch.lines

    @property
    def _full(self) -> bool:
        return self._begun >= self._start.lines_per_run or workflow.info().is_continue_as_new_suggested()

    def _may_start(self) -> bool:
        waiting = bool(self._again) or self._next < self._start.batch.lines
        free = len(self._running) < self._start.concurrency
        return waiting and free and not (self._paused or self._cancelled or self._full)

    def _over(self) -> bool:
        if self._cancelled:
            return not self._running
        return self._full or not self._left

    async def _work(self) -> None:
        """Start lines until all have ended, or this run's history is long enough."""
        while True:
            await workflow.wait_condition(lambda: self._over() or self._may_start())
            if not self._may_start():
                return
            if self._again:
                place = self._again.popleft()
            else:
                place, self._next = self._next, self._next + 1
            self._begun += 1
            attempt = self._attempts[place] + 1
            line = await self._line(place)
            if self._cancelled:
                self._again.appendleft(place)
                return
            self._running[place] = saga_id(self._start.batch.id, line, attempt)
            task = asyncio.create_task(self._run_line(place, line, attempt))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _line(self, place: int) -> Line:
        refs = self._start.batch.pages
        number = bisect_right([ref.first for ref in refs], place) - 1
        if number not in self._pages:
            self._pages[number] = await page_of(refs[number])
        return self._pages[number].lines[place - refs[number].first]

    async def _run_line(self, place: int, line: Line, attempt: int) -> None:
        end = await self._end_of(place, line)
        self._ended.append(Ended(place=place, attempt=attempt, state=end.state))
        self._attempts[place] = attempt
        self._taken.update(end.taken)
        self._returned.update(end.returned)
        del self._running[place]
        if end.state is not SagaState.COMMITTED:
            self._failed += 1
            stop = self._start.stop_after
            if stop and stop.reached(self._failed, self._start.batch.lines) and not self._paused:
                self._paused, self._stopped = f"{self._failed} lines failed", True

    async def _end_of(self, place: int, line: Line) -> LineEnd:
        """Start the line's saga, or look after the one that was started before; wait for its end."""
        limits = {} if line.max_attempts is None else {"max_attempts": line.max_attempts}
        request = TurnInput(
            text=line.text,
            model=line.model or self._start.model,
            team=self._start.team,
            # Nobody is there to be asked: who puts an order into a batch has confirmed it.
            confirmed=True,
            model_queue=self._start.model_queue,
            options=self._start.options.model_copy(update=limits),
        )
        try:
            child = await workflow.start_child_workflow(
                AgentSaga.run,
                request,
                id=self._running[place],
                parent_close_policy=ParentClosePolicy.ABANDON,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
        except WorkflowAlreadyStartedError:
            self._known.add(place)
            return await awaited_end(self._running[place])
        self._known.add(place)
        try:
            return end_of(await child)
        except ChildWorkflowError:
            return LOST

    async def _cancel_running(self) -> None:
        """Cancel every saga that runs; they end cleanly and are waited for by ``_work``."""
        await workflow.wait_condition(lambda: self._running.keys() <= self._known)
        reason = workflow.cancellation_reason() or "the swarm was cancelled"

        async def cancel(saga: str) -> None:
            try:
                await workflow.get_external_workflow_handle(saga).cancel(reason=reason)
            except FailureError:
                workflow.logger.info("saga %s had ended before it could be cancelled", saga)

        await asyncio.gather(*(cancel(saga) for saga in self._running.values()))

    def _state(self, looked_after: tuple[int, ...] = ()) -> SwarmState:
        return self._start.model_copy(
            update={
                "paused": self._paused,
                "stopped": self._stopped,
                "cancelled": self._cancelled,
                "next": self._next,
                "again": (*looked_after, *self._again),
                "ended": tuple(self._ended),
                "failed": self._failed,
                "taken": dict(self._taken),
                "returned": dict(self._returned),
            }
        )
