"""Approvals: a call waits until a person agrees to exactly this call, or does not, or nobody answers in time."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field
from temporalio import workflow
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.errors import CountermandError
from countermand.saga.journal import safe_digest
from countermand.saga.ledger import Step
from countermand.saga.tool import AnyTool
from countermand.saga.types import ID_PATTERN, ApprovalRequest, Effect, Frozen, Money

QUERY_TIMEOUT = timedelta(seconds=5)


class Answer(StrEnum):
    """What became of a request. ``withdrawn``: its saga ended, or began to be undone, before anybody answered."""

    GRANTED = "granted"
    REFUSED = "refused"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class ApprovalDecision(Frozen):
    """What a person says of a request; the digest is that of the call that was shown."""

    id: str
    digest: str
    by: str = Field(pattern=ID_PATTERN, description="The account of who decided.")
    reason: str = Field(default="", max_length=1000)


class Answered(Frozen):
    """A request that is closed; asked again, it answers the same."""

    id: str
    answer: Answer
    by: str | None = None
    reason: str = ""
    at: datetime


class ApprovalBook(Frozen):
    """All requests of a saga."""

    pending: tuple[ApprovalRequest, ...]
    answered: tuple[Answered, ...]


class NotApprovable(CountermandError):
    """The request can't be answered (so, or any more); the message says why."""


class Approvals:
    """The requests of one saga, in its workflow."""

    def __init__(self) -> None:
        self._requests: dict[str, ApprovalRequest] = {}
        self._answers: dict[str, Answered] = {}

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The requests that nobody has answered."""
        return tuple(request for request in self._requests.values() if request.id not in self._answers)

    @property
    def answered(self) -> tuple[Answered, ...]:
        """The requests that are closed, in the order in which they were."""
        return tuple(self._answers.values())

    def serve(self) -> None:
        """Let the workflow take decisions: the updates ``approve`` and ``refuse``, the query ``approvals``."""
        workflow.set_update_handler("approve", self._approve, validator=self._check)
        workflow.set_update_handler("refuse", self._refuse, validator=self._check)
        workflow.set_query_handler("approvals", self._book)

    async def ask(
        self, step: Step, *, rule: str, cost: Money | None, within: timedelta, over: Callable[[], bool]
    ) -> Answered:
        """Ask for a registered step, and wait.

        Args:
            step: The step, which is not launched yet.
            rule: The guard's rule that asks.
            cost: What the call costs, where that is known.
            within: How long the request stands.
            over: Whether nobody need answer any more, since the saga stops.
        """
        request = ApprovalRequest(
            id=step.call.step_key,
            tool=step.tool.name,
            agent=step.call.agent,
            args=step.args,
            digest=safe_digest({"tool": step.tool.name, "args": step.args}),
            rule=rule,
            cost=cost,
            undo=undo_in_words(step.tool),
            expires=workflow.now() + within,
        )
        self._requests[request.id] = request
        left = Answer.WITHDRAWN
        try:
            await workflow.wait_condition(lambda: request.id in self._answers or over(), timeout=within)
        except TimeoutError:
            left = Answer.EXPIRED
        finally:
            # Also where the wait is cancelled: who answers later is told that it is too late.
            if request.id not in self._answers:
                self._answers[request.id] = Answered(id=request.id, answer=left, at=workflow.now())
        return self._answers[request.id]

    def _approve(self, decision: ApprovalDecision) -> Answered:
        return self._decide(decision, Answer.GRANTED)

    def _refuse(self, decision: ApprovalDecision) -> Answered:
        return self._decide(decision, Answer.REFUSED)

    def _decide(self, decision: ApprovalDecision, answer: Answer) -> Answered:
        made = Answered(id=decision.id, answer=answer, by=decision.by, reason=decision.reason, at=workflow.now())
        return self._answers.setdefault(decision.id, made)

    def _check(self, decision: ApprovalDecision) -> None:
        request = self._requests.get(decision.id)
        if request is None:
            raise ApplicationError(f"there is no approval {decision.id!r} to decide")
        if decision.digest != request.digest:
            raise ApplicationError(
                f"{decision.id}: the call has another tool or other arguments than those that were looked at"
            )
        if (problem := _too_late(self._answers.get(decision.id))) is not None:
            raise ApplicationError(problem)

    def _book(self) -> ApprovalBook:
        return ApprovalBook(pending=self.pending, answered=self.answered)


def undo_in_words(tool: AnyTool) -> str:
    """What undoing a call would do: the first line of its compensation, as its author wrote it."""
    if tool.undo is None:
        return "nothing: it can't be undone" if tool.effect is Effect.IRREVERSIBLE else "nothing: it only reads"
    return (tool.undo.__doc__ or tool.undo_name or "").strip().partition("\n")[0]


def _too_late(answered: Answered | None) -> str | None:
    if answered is None or answered.answer in {Answer.GRANTED, Answer.REFUSED}:
        return None
    return f"{answered.id}: too late, it was {answered.answer} at {answered.at.isoformat(timespec='seconds')}"


async def pending_approvals(client: Client, *, limit: int = 200) -> list[ApprovalRequest]:
    """The requests of all running sagas of agents, the newest sagas first; one that can't be asked is left out."""
    query = "WorkflowType = 'AgentSaga' AND ExecutionStatus = 'Running'"
    found: list[ApprovalRequest] = []
    async for execution in client.list_workflows(query, limit=limit):
        if (book := await _read(client, execution.id)) is not None:
            found += book.pending
    return found


async def decide_approval(
    client: Client, approval_id: str, *, granted: bool, by: str, reason: str = "", digest: str | None = None
) -> Answered:
    """Grant or refuse a request; one that was decided before answers what it was.

    Args:
        client: Connected with ``CountermandPlugin``.
        approval_id: The request's id: the saga's id, a colon, the step's number.
        granted: Whether the call may be made.
        by: Who decided.
        reason: Why; a refusal's is told to the agent.
        digest: Of the call that was looked at; the one that stands now, if None.

    Raises:
        NotApprovable: There is no such request, it is another call, or it is too late.
    """
    saga_id = approval_id.rpartition(":")[0]
    book = await _read(client, saga_id) if saga_id else None
    if book is None:
        raise NotApprovable(f"there is no approval {approval_id!r}: 'countermand approvals list' shows which there are")
    known = next((request.digest for request in book.pending if request.id == approval_id), "")
    before = next((answered for answered in book.answered if answered.id == approval_id), None)
    if before is not None:
        if (problem := _too_late(before)) is not None:
            raise NotApprovable(problem)
        return before
    decision = ApprovalDecision(id=approval_id, digest=digest or known, by=by, reason=reason)
    try:
        return await client.get_workflow_handle(saga_id).execute_update(
            "approve" if granted else "refuse", decision, result_type=Answered
        )
    except WorkflowUpdateFailedError as error:
        raise NotApprovable(str(error.cause)) from error
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise NotApprovable(f"{approval_id}: too late, its saga has ended") from error


async def _read(client: Client, saga_id: str) -> ApprovalBook | None:
    """A saga's requests, or None where there is no such saga, or nobody to ask."""
    try:
        return await client.get_workflow_handle(saga_id).query(
            "approvals", result_type=ApprovalBook, rpc_timeout=QUERY_TIMEOUT
        )
    except RPCError as error:
        if error.status in {RPCStatusCode.NOT_FOUND, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.INVALID_ARGUMENT}:
            return None
        raise
