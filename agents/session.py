"""``ChatSession``: one conversation as an entity workflow; each turn is a child ``AgentSaga``."""

import asyncio
from collections import deque
from enum import StrEnum

from langchain_core.messages import AnyMessage, HumanMessage
from pydantic import Field, JsonValue
from temporalio import workflow
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, FailureError

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.guard import Spent
from countermand.agents.messages import Messages, as_json
from countermand.agents.team import Team
from countermand.agents.think import ModelQueue
from countermand.agents.turn import TurnInput
from countermand.cache.types import Context, ContextRef, Fact, FactConflict
from countermand.saga import SagaOptions, SagaState
from countermand.saga.state import SAGA_STATE
from countermand.saga.tasks import uninterrupted
from countermand.saga.types import ID_PATTERN, Frozen

MAX_TEXT = 16_000
"""Characters of one user message."""

MAX_CONTEXT_BYTES = 300_000
"""How much of the conversation a model is shown; the oldest whole turns go first. A payload holds 2 MB."""

MAX_FACTS = 100
MAX_FACT_BYTES = 8_000

TURNS_PER_RUN = 200
"""Continue as new long before the limits of a run (2,000 updates, 51,200 events)."""


class TurnState(StrEnum):
    """How far a turn is; its saga says how it ended."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


class Say(Frozen):
    """One user message. ``turn_id`` is the client's: sent twice, it is done once."""

    turn_id: str = Field(pattern=ID_PATTERN)
    text: str = Field(min_length=1, max_length=MAX_TEXT)
    confirmed: bool = False


class TurnTicket(Frozen):
    """Where a turn's answer will be: the result of the workflow ``saga_id``."""

    turn: int
    saga_id: str
    turn_id: str
    state: TurnState


class SessionInput(Frozen):
    """A conversation's settings, and what it carries over when it continues as new."""

    team: Team
    model: str
    model_queue: ModelQueue = None
    options: SagaOptions = SagaOptions()
    tenant: str = Field(default="default", pattern=ID_PATTERN)
    conversation: tuple[list[AnyMessage], ...] = ()
    version: int = 0
    tickets: tuple[TurnTicket, ...] = ()
    queued: tuple[tuple[int, Say], ...] = ()
    facts: tuple[Fact, ...] = ()
    spent: Spent = Spent()
    tainted: bool = False


class PutFact(Frozen):
    """A fact to store, if it is still at the version that the writer read (0: there was none)."""

    name: str = Field(pattern=ID_PATTERN)
    value: JsonValue
    expected_version: int = Field(ge=0)


class SessionStatus(Frozen):
    """A session at a glance."""

    session: str
    version: int
    turns: tuple[TurnTicket, ...]


@workflow.defn
class ChatSession:
    """Keeps a conversation; runs its turns one at a time, in order."""

    @workflow.init
    def __init__(self, start: SessionInput) -> None:
        self._start = start
        self._turns: deque[list[AnyMessage]] = deque(start.conversation)
        self._version = start.version
        self._tickets = {ticket.turn_id: ticket for ticket in start.tickets}
        self._queue = deque(start.queued)
        self._closed = False
        self._child_started = False
        self._facts = {fact.name: fact for fact in start.facts}
        self._spent, self._tainted = start.spent, start.tainted
        self._ref: ContextRef = self._context().ref

    @workflow.run
    async def run(self, start: SessionInput) -> SessionStatus:  # noqa: ARG002 - taken by __init__
        """Serve turns until closed or cancelled."""
        try:
            for _ in range(TURNS_PER_RUN):
                await workflow.wait_condition(lambda: bool(self._queue) or self._closed)
                if not self._queue:
                    break
                await self._turn(*self._queue.popleft())
        except asyncio.CancelledError:
            self._closed = True
        await uninterrupted(asyncio.create_task(workflow.wait_condition(workflow.all_handlers_finished)))
        if not self._closed:
            workflow.continue_as_new(self._carried())
        return self.status()

    @workflow.update
    async def say(self, message: Say) -> TurnTicket:
        """Take a message; answers at once where the turn's result will be."""
        known = self._tickets.get(message.turn_id)
        if known is not None:
            return known
        turn = len(self._tickets) + 1
        busy = bool(self._queue) or any(ticket.state is not TurnState.ENDED for ticket in self._tickets.values())
        ticket = TurnTicket(
            turn=turn,
            saga_id=f"{workflow.info().workflow_id}/t{turn}",
            turn_id=message.turn_id,
            state=TurnState.QUEUED if busy else TurnState.RUNNING,
        )
        self._tickets[message.turn_id] = ticket
        self._queue.append((turn, message))
        return ticket

    @say.validator
    def _check_say(self, message: Say) -> None:  # noqa: ARG002 - a validator takes its update's argument
        if self._closed or workflow.cancellation_reason() is not None:
            raise ApplicationError("the session is closed: start another one", type="SessionClosed")

    @workflow.signal
    def close(self) -> None:
        """End the session when the turns that it has taken are done."""
        self._closed = True

    @workflow.query
    def status(self) -> SessionStatus:
        """The session at a glance."""
        tickets = tuple(self._tickets.values())
        return SessionStatus(session=workflow.info().workflow_id, version=self._version, turns=tickets)

    @workflow.query
    def context(self) -> Context:
        """The conversation that the next turn follows on."""
        return self._context()

    @workflow.query
    def facts(self) -> tuple[Fact, ...]:
        """The facts that tools and MCP clients stored."""
        return tuple(self._facts.values())

    @workflow.update
    async def put_fact(self, put: PutFact) -> Fact | FactConflict:
        """Store a fact if it is still at the expected version (0: there is none)."""
        known = self._facts.get(put.name)
        version = known.version if known else 0
        if version != put.expected_version:
            return FactConflict(current_version=version)
        fact = Fact(name=put.name, value=put.value, version=version + 1)
        self._facts[put.name] = fact
        return fact

    @put_fact.validator
    def _check_put_fact(self, put: PutFact) -> None:
        if put.name not in self._facts and len(self._facts) >= MAX_FACTS:
            raise ApplicationError(f"a session keeps {MAX_FACTS} facts at most", type="TooManyFacts")
        if len(put.model_dump_json()) > MAX_FACT_BYTES:
            raise ApplicationError(f"a fact has {MAX_FACT_BYTES:,} bytes at most", type="FactTooLarge")

    async def _turn(self, number: int, message: Say) -> None:
        ticket = self._tickets[message.turn_id]
        self._mark(ticket, TurnState.RUNNING)
        request = TurnInput(
            text=message.text,
            model=self._start.model,
            team=self._start.team,
            session=workflow.info().workflow_id,
            turn=number,
            context=self._ref,
            tenant=self._start.tenant,
            spent=self._spent,
            tainted=self._tainted,
            confirmed=message.confirmed,
            model_queue=self._start.model_queue,
            options=self._start.options,
        )
        child = asyncio.create_task(self._run_child(ticket.saga_id, request))
        try:
            await asyncio.shield(child)
        except asyncio.CancelledError:
            self._closed = True
            await uninterrupted(asyncio.create_task(self._cancel_child(ticket.saga_id)))
            await uninterrupted(child)
        self._mark(ticket, TurnState.ENDED)

    async def _cancel_child(self, saga_id: str) -> None:
        """Tell the saga why; it ends cleanly and is waited for, since its answer belongs to the conversation."""
        await workflow.wait_condition(lambda: self._child_started)
        reason = workflow.cancellation_reason() or "the session was cancelled"
        try:
            await workflow.get_external_workflow_handle(saga_id).cancel(reason=reason)
        except FailureError:
            workflow.logger.info("saga %s had ended before it could be cancelled", saga_id)

    async def _run_child(self, saga_id: str, request: TurnInput) -> None:
        options = self._start.options
        attributes = TypedSearchAttributes([SearchAttributePair(SAGA_STATE, SagaState.OPEN)])
        self._child_started = False
        try:
            handle = await workflow.start_child_workflow(
                AgentSaga.run,
                request,
                id=saga_id,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                search_attributes=attributes if options.visibility else None,
            )
            self._child_started = True
            result: TurnResult = await handle
        except ChildWorkflowError as error:
            # Terminated from outside: recovery undoes it; the conversation goes on without it.
            workflow.logger.warning("turn %s ended without an answer: %s", saga_id, error)
            return
        self._spent, self._tainted = result.spent, result.tainted
        self._append([HumanMessage(request.text), *result.messages])

    def _append(self, messages: list[AnyMessage]) -> None:
        self._turns.append(messages)
        while len(self._turns) > 1 and len(Messages.dump_json(self._messages())) > MAX_CONTEXT_BYTES:
            self._turns.popleft()
        self._version += 1
        self._ref = self._context().ref

    def _messages(self) -> list[AnyMessage]:
        return [message for turn in self._turns for message in turn]

    def _context(self) -> Context:
        return Context(
            tenant=self._start.tenant,
            session=workflow.info().workflow_id,
            version=self._version,
            messages=as_json(self._messages()),
        )

    def _mark(self, ticket: TurnTicket, state: TurnState) -> None:
        self._tickets[ticket.turn_id] = ticket.model_copy(update={"state": state})

    def _carried(self) -> SessionInput:
        return self._start.model_copy(
            update={
                "conversation": tuple(self._turns),
                "version": self._version,
                "tickets": tuple(self._tickets.values()),
                "queued": tuple(self._queue),
                "facts": tuple(self._facts.values()),
                "spent": self._spent,
                "tainted": self._tainted,
            }
        )
