"""Residuals: what could not be undone is held by a workflow of its own until an operator has decided each piece."""

import asyncio
import uuid
from enum import StrEnum

from pydantic import Field
from temporalio import workflow
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.calls import call_undo
from countermand.saga.errors import CountermandError
from countermand.saga.history import RecordedStep
from countermand.saga.journal import Journal
from countermand.saga.ledger import Step
from countermand.saga.names import RESIDUALS
from countermand.saga.state import show_state
from countermand.saga.tasks import uninterrupted
from countermand.saga.types import (
    ID_PATTERN,
    Cause,
    Compensation,
    Frozen,
    Residual,
    SagaOptions,
    SagaReport,
    SagaState,
)


class Choice(StrEnum):
    """What an operator does about a residual. ``give_up`` leaves it standing, and needs a reason."""

    RETRY = "retry"
    DONE_BY_HAND = "done_by_hand"
    GIVE_UP = "give_up"


class Decision(Frozen):
    """One decision about one step."""

    step_no: int = Field(ge=1)
    choice: Choice
    by: str = Field(pattern=ID_PATTERN, description="The account of who decided.")
    reason: str = Field(default="", max_length=1000)


class Decided(Frozen):
    """What a decision came to: ``settled`` if nothing more is asked about the step."""

    decision: Decision
    settled: bool
    detail: str


class ResidualsInput(Frozen):
    """A saga's ledger, with what stands although it did not commit."""

    saga_id: str
    cause: Cause | None
    steps: tuple[RecordedStep, ...] = Field(min_length=1)
    mended: SagaState = Field(default=SagaState.COMPENSATED, description="What the saga is when all were mended.")
    options: SagaOptions = SagaOptions()


class ResidualsReport(Frozen):
    """A saga's residuals: what is still undecided, and every decision so far."""

    saga: SagaReport
    decisions: tuple[Decided, ...] = ()


class NoSuchResidual(CountermandError):
    """The saga has no residual at that step, or the decision is not one that can be taken."""


@workflow.defn
class ResidualsWorkflow:
    """Holds a saga's residuals. Ends as ``mended`` when all were, else as ``needs_attention``."""

    @workflow.init
    def __init__(self, left: ResidualsInput) -> None:
        self._left = left
        self._steps = [Step.of(step) for step in left.steps]
        self._standing = {step.no: step for step in self._steps if step.may_stand}
        self._given_up: set[int] = set()
        self._decided: list[Decided] = []
        self._one_at_a_time = asyncio.Lock()
        self._state = SagaState.NEEDS_ATTENTION
        self._journal = Journal(left.saga_id, left.options)
        for step in self._standing.values():
            self._journal.left(step, decision="left", by="executor", reason="")

    @workflow.run
    async def run(self, left: ResidualsInput) -> ResidualsReport:
        """Wait until every residual is decided; a cancel decides nothing."""
        await uninterrupted(asyncio.create_task(self._hold(left)))
        return self.report()

    async def _hold(self, left: ResidualsInput) -> None:
        while True:
            self._state = SagaState.NEEDS_ATTENTION
            show_state(left.options, self._state)
            await workflow.wait_condition(lambda: not self._open())
            await workflow.wait_condition(workflow.all_handlers_finished)
            if not self._given_up:
                self._state = left.mended
                show_state(left.options, self._state)
            # More may be found while this is handed over.
            await self._journal.close(self.report().saga)
            if not self._open():
                return

    @workflow.update
    async def decide(self, decision: Decision) -> Decided:
        """Take a decision; the same decision about a settled step answers what it came to."""
        async with self._one_at_a_time:
            step = self._standing[decision.step_no]
            if step.no not in self._open():
                return next(one for one in reversed(self._decided) if one.decision.step_no == step.no)
            self._journal.left(step, decision=decision.choice, by=f"operator:{decision.by}", reason=decision.reason)
            match decision.choice:
                case Choice.RETRY:
                    decided = await self._retry(step, decision)
                case Choice.DONE_BY_HAND:
                    step.compensation = Compensation.DONE
                    decided = Decided(decision=decision, settled=True, detail="done by hand")
                case Choice.GIVE_UP:
                    self._given_up.add(step.no)
                    decided = Decided(decision=decision, settled=True, detail="given up: it stands")
            self._decided.append(decided)
            return decided

    @workflow.signal
    def reopen(self, found: tuple[RecordedStep, ...]) -> None:
        """Hold more steps, whose effects were found standing; one that is undecided stays as it is."""
        for step in map(Step.of, found):
            if step.no not in self._open():
                self._steps = [*(one for one in self._steps if one.no != step.no), step]
                self._standing[step.no] = step
                self._given_up.discard(step.no)

    @decide.validator
    def _check(self, decision: Decision) -> None:
        step = self._standing.get(decision.step_no)
        if step is None:
            raise ApplicationError(f"step {decision.step_no} left nothing: {', '.join(map(str, self._standing))} did")
        if decision.choice is Choice.GIVE_UP and not decision.reason.strip():
            raise ApplicationError("giving up needs a --reason: it is recorded")
        if decision.choice is Choice.RETRY and step.tool.undo is None:
            raise ApplicationError(f"{step.tool.name} can't be undone: decide --done-by-hand or --give-up")

    @workflow.query
    def report(self) -> ResidualsReport:
        """What is left, and what was decided."""
        saga = SagaReport(
            id=self._left.saga_id,
            state=self._state,
            cause=self._left.cause,
            steps=tuple(step.report() for step in self._steps),
            residuals=self._residuals(),
        )
        return ResidualsReport(saga=saga, decisions=tuple(self._decided))

    async def _retry(self, step: Step, decision: Decision) -> Decided:
        tries = sum(one.decision.step_no == step.no for one in self._decided)
        try:
            undone = await call_undo(step, again=tries + 1)
        except ActivityError as error:
            step.undo_error = str(error.cause or error)
            return Decided(decision=decision, settled=False, detail=f"the undo failed again: {step.undo_error}")
        step.compensation = Compensation.DONE if undone.effective else Compensation.NOOP
        self._journal.undone(step, f"operator:{decision.by}")
        return Decided(decision=decision, settled=True, detail=undone.detail or "undone")

    def _open(self) -> set[int]:
        return {no for no, step in self._standing.items() if step.may_stand and no not in self._given_up}

    def _residuals(self) -> tuple[Residual, ...]:
        return tuple(step.residual() for step in self._steps if step.may_stand)


async def hold(
    client: Client,
    saga_id: str,
    found: tuple[RecordedStep, ...],
    *,
    cause: Cause,
    mended: SagaState,
    task_queue: str,
    options: SagaOptions,
) -> None:
    """Hold steps of a saga as residuals, beside those that are held already."""
    await client.start_workflow(
        ResidualsWorkflow.run,
        ResidualsInput(saga_id=saga_id, cause=cause, steps=found, mended=mended, options=options),
        id=f"{RESIDUALS}{saga_id}",
        task_queue=task_queue,
        start_signal="reopen",
        start_signal_args=[found],
    )


async def decide(client: Client, saga_id: str, decision: Decision) -> Decided:
    """Decide one residual of a saga.

    Raises:
        NoSuchResidual: There is nothing to decide there, or not so.
    """
    await resume_residuals(client, saga_id)
    handle = client.get_workflow_handle_for(ResidualsWorkflow.run, f"{RESIDUALS}{saga_id}")
    try:
        return await handle.execute_update(ResidualsWorkflow.decide, decision)
    except WorkflowUpdateFailedError as error:
        raise NoSuchResidual(str(error.cause)) from error
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        report = await _closed_report(client, saga_id)
        settled = [one for one in report.decisions if one.decision.step_no == decision.step_no] if report else []
        if not settled:
            raise NoSuchResidual(f"saga {saga_id!r} has no residuals to decide") from error
        return settled[-1]


async def resume_residuals(client: Client, saga_id: str) -> bool:
    """Let residuals go on from where they stood, whose workflow was terminated or timed out; answers whether they were.

    Raises:
        NoSuchResidual: They had not begun to be held: there is nothing to go on from.
    """
    handle = client.get_workflow_handle(f"{RESIDUALS}{saga_id}")
    try:
        held = await handle.describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    if held.status not in {WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT}:
        return False
    history = await handle.fetch_history()
    done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    tasks = [event.event_id for event in history.events if event.event_type == done]
    if not tasks:
        raise NoSuchResidual(f"what {saga_id} left was let go before it was held: 'countermand reconcile' finds it")
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=held.id, run_id=held.run_id),
            reason="residuals are held until a person has decided them, but their workflow was cut off",
            workflow_task_finish_event_id=tasks[-1],
            # The run's: two that come at once reset it once.
            request_id=str(uuid.uuid5(uuid.UUID(held.run_id), "resumed")),
        )
    )
    return True


async def _closed_report(client: Client, saga_id: str) -> ResidualsReport | None:
    try:
        return await client.get_workflow_handle_for(ResidualsWorkflow.run, f"{RESIDUALS}{saga_id}").result()
    except RPCError:
        return None
