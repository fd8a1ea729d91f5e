"""The executor: runs steps inside a workflow, and undoes them whatever happens to the workflow's code."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeVar, cast

from pydantic import BaseModel
from temporalio import workflow
from temporalio.exceptions import ActivityError, WorkflowAlreadyStartedError

from countermand.saga.approvals import Approvals
from countermand.saga.calls import call_forward, call_undo
from countermand.saga.errors import SagaFailed, ToolRefused, ToolUnavailable
from countermand.saga.journal import Journal
from countermand.saga.ledger import Step
from countermand.saga.names import RESIDUALS
from countermand.saga.outcomes import ask_probe, find_outcome
from countermand.saga.resets import recorded_by_all_runs, was_reset
from countermand.saga.residuals import ResidualsInput, ResidualsWorkflow
from countermand.saga.state import SAGA_STATE, show_state
from countermand.saga.tasks import uninterrupted
from countermand.saga.tool import Tool
from countermand.saga.types import (
    Cause,
    CauseKind,
    Compensation,
    Outcome,
    SagaOptions,
    SagaReport,
    SagaState,
    ToolCall,
)

ArgsT = TypeVar("ArgsT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)


class Saga:
    """One saga, owned by one workflow; its id is the workflow's id.

    Args:
        options: How the saga runs.
        session: The conversation that it belongs to, if any.
        recovered: The id and the ledger of a saga whose own workflow is gone, to roll it back from here.
    """

    def __init__(
        self,
        options: SagaOptions | None = None,
        *,
        session: str | None = None,
        recovered: tuple[str, list[Step]] | None = None,
    ) -> None:
        self.id, self.steps = recovered or (workflow.info().workflow_id, [])
        self.state = SagaState.OPEN
        self.journal = Journal(self.id, options or SagaOptions())
        self.approvals = Approvals()
        self.cause: Cause | None = None
        self._options = options or SagaOptions()
        self._session = session
        self._failed: Cause | None = None
        self._undos = max((step.undo_no or 0 for step in self.steps), default=0)
        self._closing: asyncio.Task[None] | None = None
        if self._options.visibility and workflow.info().typed_search_attributes.get(SAGA_STATE) is None:
            self._enter(SagaState.OPEN)

    # -- forward ---------------------------------------------------------------------------------------------------

    def register(
        self,
        tool: Tool[ArgsT, ResultT],
        args: ArgsT,
        *,
        agent: str | None = None,
        rule: str = "plan",
        asks: bool = False,
    ) -> Step:
        """Give the next call its number and its row in the ledger; ``launch`` runs it.

        All calls of one model message are registered before the first is run. ``rule`` is the guard's that decided, and
        ``asks`` whether it wants a person to agree first.

        Raises:
            SagaFailed: The saga takes no steps any more (it failed, was cancelled, or is closed).
        """
        self._check_open()
        no = len(self.steps) + 1
        key = f"{self.id}:{no}"
        call = ToolCall(saga_id=self.id, step_no=no, key=key, session=self._session, agent=agent, rule=rule)
        step = Step(tool=tool, call=call, args=args.model_dump(mode="json"))
        self.steps.append(step)
        self.journal.registered(step, asks=asks)
        return step

    def launch(self, step: Step) -> None:
        """Run a registered step in a task of the saga's own; raises as ``register`` does."""
        self._check_open()
        step.task = asyncio.create_task(self._perform(step), name=step.call.key)

    async def finish(self, step: Step) -> BaseModel:
        """Wait for a started step and answer its result. Cancelling the waiter does not touch the step.

        Raises:
            ToolRefused: The call certainly had no effect; the saga goes on.
            ToolUnavailable: A call that is allowed to fail could not be made; the saga goes on.
            SagaFailed: The saga can only be rolled back now.
        """
        if step.task is not None:
            await asyncio.shield(step.task)
        if step.outcome is Outcome.DONE:
            return step.value()
        failure = step.failure or Cause(kind=CauseKind.UNKNOWN, step_no=step.no, message="it was not run")
        if self._failed is not None:
            raise SagaFailed(self._failed)
        if failure.kind is CauseKind.REFUSED:
            raise ToolRefused(failure.message)
        raise ToolUnavailable(failure.message)

    async def run(self, tool: Tool[ArgsT, ResultT], args: ArgsT, *, agent: str | None = None) -> ResultT:
        """Run one step and answer its result; raises as ``register`` and ``finish`` do."""
        step = self.register(tool, args, agent=agent)
        self.launch(step)
        return cast("ResultT", await self.finish(step))

    def cancel_cause(self) -> Cause | None:
        """Why the workflow was asked to stop, or None.

        Temporal delivers a cancel once, and it can vanish in code that finishes anyway: so it is asked for, before
        every step and before commit.
        """
        reason = workflow.cancellation_reason()
        if reason is None:
            return None
        # A workflow's cancel of another is told with the run that asked, which is nothing to its reader.
        why = reason.rpartition("with reason: ")[2]
        return Cause(kind=CauseKind.CANCELLED, message=why or "the saga was cancelled")

    @property
    def pivoted(self) -> bool:
        """Whether an irreversible step had, or may have had, its effect: from then on a saga goes forward only."""
        return any(step.irreversible and step.outcome in {Outcome.DONE, Outcome.UNKNOWN} for step in self.steps)

    @property
    def stopping(self) -> bool:
        """Whether the saga takes no steps any more, so that nothing need be waited for."""
        failing = self._failed is not None or (not self.pivoted and self.cancel_cause() is not None)
        return failing or self.state is not SagaState.OPEN

    def _check_open(self) -> None:
        if self.state is not SagaState.OPEN:
            raise SagaFailed(self.cause or Cause(kind=CauseKind.ABORTED, message=f"the saga is {self.state} already"))
        if self._failed is None and not self.pivoted:
            self._failed = self.cancel_cause()
        if self._failed is not None:
            raise SagaFailed(self._failed)

    async def _perform(self, step: Step) -> None:
        """Run a step to its outcome; never raises, since the outcome is in the ledger."""
        await self._run_forward(step)
        self.journal.came_to(step)

    async def _run_forward(self, step: Step) -> None:
        if step.irreversible and not await self._all_done_beside(step):
            step.fail(Outcome.REFUSED, CauseKind.REFUSED, "not run, since a step beside it was not done")
            return
        if was_reset(f"step {step.no}") and not await self._goes_on(before=step.no):
            step.fail(Outcome.REFUSED, CauseKind.TERMINATED, "not run, since what was done before the reset differs")
            return
        began = workflow.now()
        try:
            try:
                step.result = await call_forward(step, max_attempts=self._options.max_attempts)
                step.outcome = Outcome.DONE
            except ActivityError as error:
                await find_outcome(step, error, ran_for=workflow.now() - began)
                # A refused call goes back to whoever chose it, and fails nothing.
                if step.failure and step.failure.kind is not CauseKind.REFUSED and not step.stopped:
                    await self._go_on_without(step)
        except asyncio.CancelledError:
            step.fail(Outcome.UNKNOWN, CauseKind.CANCELLED, "cancelled while it ran")
        except Exception as error:  # noqa: BLE001 - a bug must fail the saga, not retry the workflow task for ever
            step.fail(Outcome.UNKNOWN, CauseKind.BUG, f"{type(error).__name__}: {error}")
            self._failed = self._failed or step.failure

    async def _all_done_beside(self, step: Step) -> bool:
        """Wait for all that runs beside an irreversible step, but for irreversible ones that wait in turn for it."""
        beside = [
            other
            for other in self.steps
            if other.task is not None and not other.task.done() and not (other.irreversible and other.no >= step.no)
        ]
        for other in beside:
            if other.task is not None:
                await other.task
        return self._failed is None and not step.stopped and all(other.outcome is Outcome.DONE for other in beside)

    async def _goes_on(self, before: int | None = None) -> bool:
        """Whether what the runs that were reset away did agrees with this run, up to a step or to the commit.

        They may have begun to undo what it takes for standing; and where it decided otherwise (a model is asked anew),
        what they did stands beside its ledger. Then the saga can only be rolled back.
        """
        recorded = await recorded_by_all_runs(self.id)
        undone = {step.no for step in recorded if step.compensation is not Compensation.NONE}
        for step in self.steps[: None if before is None else before - 1]:
            if step.no in undone and step.may_stand and step.outcome is Outcome.DONE:
                return self._reset_failed(step, "undone before the workflow was reset")
        for step in self._strays(recorded):
            if before is None or step.no <= before:
                return self._reset_failed(step, "done before the workflow was reset, and not decided again")
        return True

    def _reset_failed(self, step: Step, why: str) -> bool:
        cause = Cause(kind=CauseKind.TERMINATED, step_no=step.no, message=f"{step.tool.name}: {why}")
        self._failed = self._failed or cause
        return False

    def _strays(self, recorded: list[Step]) -> list[Step]:
        """What may stand of earlier runs' steps that this run's ledger does not have."""
        return [step for step in recorded if step.may_stand and not any(map(step.repeats, self.steps))]

    async def _go_on_without(self, step: Step) -> None:
        """What follows for the saga from a call that was not done."""
        rolls_back = step.tool.on_failure == "rollback"
        if not rolls_back and step.outcome is Outcome.UNKNOWN and step.tool.undo is not None:
            await self._undo(step)
        if rolls_back or (step.outcome is Outcome.UNKNOWN and step.may_stand):
            self._failed = self._failed or step.failure

    # -- backward --------------------------------------------------------------------------------------------------

    async def undo_to(self, step_no: int) -> None:
        """Undo all steps after ``step_no`` in reverse order, and go on from there; nothing interrupts it.

        Raises:
            ToolRefused: An irreversible step ran, or runs: there is no way back from it.
            SagaFailed: An undo failed, or the saga takes no steps any more.
        """
        self._check_open()
        if any(step.irreversible and step.task and step.outcome is not Outcome.REFUSED for step in self.steps):
            raise ToolRefused("a step that can't be undone has run: there is no way back, only forward")
        await uninterrupted(asyncio.create_task(self._undo_after(step_no, past_failures=False)))
        if any(step.compensation is Compensation.FAILED for step in self.steps):
            self._failed = Cause(kind=CauseKind.UNKNOWN, message=f"the undo back to step {step_no} failed")
            raise SagaFailed(self._failed)

    async def commit(self) -> SagaReport:
        """Close the saga: what stands, stands.

        Raises:
            SagaFailed: It can't be committed (cancelled, or a step failed it): roll it back.
        """
        for step in self.steps:
            if step.task is not None:
                await asyncio.shield(step.task)
            elif step.outcome is None:
                step.refuse("it was never launched")
        if self.state is not SagaState.COMMITTED:
            if was_reset("commit"):
                await self._goes_on()
            self._check_open()
            self._enter(SagaState.COMMITTED)
            await self._hand_over()
        return self.report()

    async def rollback(self, cause: Cause) -> SagaReport:
        """Stop all that runs, undo all that stands in strict reverse order of start; nothing interrupts it."""
        return await self._go_back(cause, self._roll_back)

    async def revoke(self, cause: Cause) -> SagaReport:
        """Undo a committed saga, given as ``recovered``, in reverse; what is irreversible stays, as residuals."""
        return await self._go_back(cause, self._undo_all)

    async def _go_back(self, cause: Cause, way: Callable[[], Coroutine[None, None, None]]) -> SagaReport:
        if self._closing is None and self.state is SagaState.OPEN:
            self.cause = self._failed or cause
            self._failed = self.cause
            self._closing = asyncio.create_task(self._to_an_end(way), name=f"{self.id}:rollback")
        if self._closing is not None:
            await uninterrupted(self._closing)
        return self.report()

    def report(self) -> SagaReport:
        """The ledger as it stands now."""
        left = self.steps if self.state in {SagaState.NEEDS_ATTENTION, SagaState.COMPENSATED} else []
        return SagaReport(
            id=self.id,
            state=self.state,
            cause=self.cause,
            cancelled=self.cause is not None and self.cause.kind is CauseKind.CANCELLED,
            steps=tuple(step.report() for step in self.steps),
            residuals=tuple(step.residual() for step in left if step.may_stand),
            approvals=self.approvals.pending,
        )

    async def _to_an_end(self, way: Callable[[], Coroutine[None, None, None]]) -> None:
        await way()
        if self.state is SagaState.NEEDS_ATTENTION:
            # Whoever waits for the saga is answered at once; what it left is held until a person decides it. It is held
            # from the moment that the saga says so, whatever becomes of this workflow.
            left = tuple(step.recorded() for step in self.steps)
            # They may be held already, where this run was reset or recovers another.
            with suppress(WorkflowAlreadyStartedError):
                await workflow.start_child_workflow(
                    ResidualsWorkflow.run,
                    ResidualsInput(saga_id=self.id, cause=self.cause, steps=left, options=self._options),
                    id=f"{RESIDUALS}{self.id}",
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                )
        await self._hand_over()

    async def _hand_over(self) -> None:
        for step in self.steps:
            self.journal.came_to(step)
        await self.journal.close(self.report())

    async def _roll_back(self) -> None:
        await self._stop(self.steps)
        strays = self._strays(await recorded_by_all_runs(self.id)) if was_reset("rollback") else []
        self.journal.taken_over(strays)
        self.steps = sorted([*self.steps, *strays], key=lambda step: step.no)
        for step in self.steps:
            if step.irreversible and step.outcome is Outcome.UNKNOWN:
                await ask_probe(step, may_run=True)
        if not self.pivoted:
            await self._undo_all()
            return
        # Forward only: nothing is taken back behind the pivot. What is not as it was to be is left to a person.
        self._enter(SagaState.NEEDS_ATTENTION if strays or self._unfinished() else SagaState.COMMITTED)

    def _unfinished(self) -> bool:
        """Whether a bug, a step that failed, or one that is not known to have landed, keeps it from being committed."""
        cause = self._failed
        bug = cause is not None and cause.kind is CauseKind.BUG
        failed = cause is not None and any(s.no == cause.step_no and s.outcome is not Outcome.DONE for s in self.steps)
        unsettled = any(step.may_stand and step.outcome is Outcome.UNKNOWN for step in self.steps)
        return bug or failed or unsettled

    async def _undo_all(self) -> None:
        self._enter(SagaState.COMPENSATING)
        await self._undo_after(0)
        standing = any(step.may_stand and not step.irreversible for step in self.steps)
        self._enter(SagaState.NEEDS_ATTENTION if standing else SagaState.COMPENSATED)

    async def _stop(self, steps: list[Step]) -> None:
        """Cancel and await every task of these steps; an irreversible call in flight is left to end by itself."""
        running = [step for step in steps if step.task is not None and not step.task.done()]
        for step in running:
            step.stopped = True
            if step.task is not None and not step.irreversible:
                step.task.cancel()
        for step in running:
            if step.task is not None:
                await workflow.wait([step.task])
        for step in steps:
            if step.outcome is None:
                step.fail(Outcome.REFUSED, CauseKind.CANCELLED, "not run")

    async def _undo_after(self, step_no: int, *, past_failures: bool = True) -> None:
        later = self.steps[step_no:]
        await self._stop(later)
        standing = [step for step in later if step.may_stand and not step.irreversible]
        for step in standing:
            step.compensation = Compensation.PENDING
        for step in reversed(standing):
            await self._undo(step)
            if step.compensation is Compensation.FAILED and not past_failures:
                # The rollback that follows tries it again, before what was done earlier is undone.
                return

    async def _undo(self, step: Step) -> None:
        if step.undo_no is None:
            self._undos += 1
            step.undo_no = self._undos
        if step.outcome is Outcome.UNKNOWN and not step.tool.fenced:
            # Nothing downstream refuses a late attempt: none may be running when it is asked what there is to undo.
            await workflow.sleep(step.tool.policy.start_to_close)
        try:
            undone = await call_undo(step)
        except ActivityError as error:
            step.compensation = Compensation.FAILED
            step.undo_error = str(error.cause or error)
        else:
            step.compensation = Compensation.DONE if undone.effective else Compensation.NOOP
        self.journal.undone(step)

    def _enter(self, state: SagaState) -> None:
        self.state = state
        show_state(self._options, state)
