"""``ChatSession``: one conversation as an entity workflow; each turn is a child ``AgentSaga``."""

import asyncio
from collections import deque
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from langchain_core.messages import HumanMessage
from pydantic import Field
from temporalio import workflow
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError, FailureError, WorkflowAlreadyStartedError

from countermand.agents.agent_saga import AgentSaga, TurnResult, result_of_turn
from countermand.agents.conversation import bounded, by_reference, opening
from countermand.agents.guard import Spent
from countermand.agents.messages import Message, as_json
from countermand.agents.team import Team
from countermand.agents.turn import TurnInput
from countermand.agents.turn_input import ModelQueue
from countermand.cache.types import Context, ContextRef, Fact, FactConflict, Facts, PutFact
from countermand.saga import SagaOptions, SagaState
from countermand.saga.activities import HEARTBEAT_TIMEOUT
from countermand.saga.sensitive import Masked
from countermand.saga.state import SAGA_STATE
from countermand.saga.tasks import uninterrupted
from countermand.saga.types import ID_PATTERN, Frozen

MAX_TEXT = 16_000
"""Characters of one user message."""

MAX_FACTS = 100
MAX_FACT_BYTES = 8_000
MAX_QUEUED = 8
MAX_TURNS = 4_000
"""With these a session that continues as new carries less than the 2 MB of a payload."""

TURNS_PER_RUN = 200
"""Continue as new long before the limits of a run (2,000 updates, 51,200 events)."""

RESET_TURN_TIMEOUT = timedelta(days=1)
"""How long a session that was reset waits at a time for a turn that it had begun before; then it asks again."""

SHOWN_TURNS = 100
"""The newest turns, which a status shows."""

CLOSED, BUSY = "SessionClosed", "SessionBusy"
"""Why a message is not taken: the session takes no more, or no more for now."""


class TurnState(StrEnum):
    """How far a turn is; its saga says how it ended."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


class Say(Frozen):
    """One user message. ``turn_id`` is the client's: sent twice, it is done once."""

    turn_id: str = Field(pattern=ID_PATTERN)
    # Masked first: what is masked may be longer, and is checked again in the workflow.
    text: Annotated[Masked, Field(min_length=1, max_length=MAX_TEXT)]
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
    turns_per_run: int = Field(default=TURNS_PER_RUN, ge=1)
    conversation: tuple[Message, ...] = ()
    version: int = 0
    turn_ids: tuple[str, ...] = ()
    queued: tuple[Say, ...] = ()
    closed: bool = False
    facts: tuple[Fact, ...] = ()
    spent: Spent = Spent()
    tainted: bool = False


class SessionStatus(Frozen):
    """A session at a glance; of its turns the newest."""

    session: str
    version: int
    turns: tuple[TurnTicket, ...]


@workflow.defn
class ChatSession:
    """Keeps a conversation; runs its turns one at a time, in order."""

    @workflow.init
    def __init__(self, start: SessionInput) -> None:
        self._start = start
        self._conversation = [*start.conversation]
        self._version = start.version
        self._turns = {turn_id: turn for turn, turn_id in enumerate(start.turn_ids, start=1)}
        self._queue = deque(start.queued)
        self._ended = len(start.turn_ids) - len(start.queued)
        self._team = by_reference(start.team)
        self._closed, self._cancelled = start.closed, False
        self._child_started = False
        self._facts = {fact.name: fact for fact in start.facts}
        self._spent, self._tainted = start.spent, start.tainted
        self._ref: ContextRef = self._context().ref

    @workflow.run
    async def run(self, start: SessionInput) -> SessionStatus:
        """Serve turns until closed or cancelled."""
        try:
            until = self._ended + start.turns_per_run
            while self._ended < until and not (self._cancelled or workflow.info().is_continue_as_new_suggested()):
                await workflow.wait_condition(self._has_something_to_do)
                if not self._queue:
                    break
                await self._turn(self._queue.popleft())
        except asyncio.CancelledError:
            self._closed = self._cancelled = True
        await uninterrupted(asyncio.create_task(workflow.wait_condition(workflow.all_handlers_finished)))
        if not self._cancelled and (self._queue or not self._closed):
            workflow.continue_as_new(self._carried())
        return self.status()

    @workflow.update
    async def say(self, message: Say) -> TurnTicket:
        """Take a message; answers at once where the turn's result will be."""
        if message.turn_id not in self._turns:
            self._turns[message.turn_id] = len(self._turns) + 1
            self._queue.append(message)
        return self._ticket(message.turn_id)

    @say.validator
    def _check_say(self, message: Say) -> None:
        if self._closed or workflow.cancellation_reason() is not None:
            raise ApplicationError("the session is closed: start another one", type=CLOSED)
        if message.turn_id in self._turns:
            return
        if len(self._turns) >= MAX_TURNS:
            raise ApplicationError(f"the session has had its {MAX_TURNS:,} turns: start another one", type=CLOSED)
        if len(self._queue) >= MAX_QUEUED:
            raise ApplicationError(f"{MAX_QUEUED} turns wait already: say it again when one has ended", type=BUSY)

    @workflow.signal
    def close(self) -> None:
        """End the session when the turns that it has taken are done."""
        self._closed = True

    @workflow.query
    def status(self) -> SessionStatus:
        """The session at a glance."""
        newest = tuple(self._ticket(turn_id) for turn_id in [*self._turns][-SHOWN_TURNS:])
        return SessionStatus(session=workflow.info().workflow_id, version=self._version, turns=newest)

    @workflow.query
    def context(self) -> Context:
        """The conversation that the next turn follows on."""
        return self._context()

    @workflow.query
    def facts(self) -> Facts:
        """The facts that tools and MCP clients stored."""
        kept = tuple(self._facts.values())
        return Facts(
            tenant=self._start.tenant,
            session=workflow.info().workflow_id,
            # No fact is ever dropped: the sum of their versions counts all changes.
            version=sum(fact.version for fact in kept),
            facts=kept,
        )

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

    def _ticket(self, turn_id: str) -> TurnTicket:
        turn, state = self._turns[turn_id], TurnState.QUEUED
        if turn <= self._ended:
            state = TurnState.ENDED
        elif turn == self._ended + 1 and not self._cancelled:
            state = TurnState.RUNNING
        return TurnTicket(turn=turn, saga_id=self._saga_id(turn), turn_id=turn_id, state=state)

    def _saga_id(self, turn: int) -> str:
        return f"{workflow.info().workflow_id}/t{turn}"

    def _has_something_to_do(self) -> bool:
        return bool(self._queue) or self._closed or workflow.info().is_continue_as_new_suggested()

    async def _turn(self, message: Say) -> None:
        turn = self._turns[message.turn_id]
        saga_id = self._saga_id(turn)
        request = TurnInput(
            text=message.text,
            model=self._start.model,
            team=self._team,
            session=workflow.info().workflow_id,
            turn=turn,
            context=self._ref,
            tenant=self._start.tenant,
            spent=self._spent,
            tainted=self._tainted,
            confirmed=message.confirmed,
            model_queue=self._start.model_queue,
            options=self._start.options,
        )
        child = asyncio.create_task(self._run_child(saga_id, request))
        try:
            await asyncio.shield(child)
        except asyncio.CancelledError:
            self._closed = True
            await uninterrupted(asyncio.create_task(self._cancel_child(saga_id)))
            await uninterrupted(child)
            # The cancel is delivered once: turns that wait must not begin after it.
            self._cancelled = True
        self._ended = turn

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
            result: TurnResult | None = await handle
        except WorkflowAlreadyStartedError:
            # Before this session was reset. The order stands or does not: it is not placed once more.
            self._child_started = True
            result = await workflow.execute_activity(
                result_of_turn,
                saga_id,
                summary="what did the turn come to, before the reset?",
                start_to_close_timeout=RESET_TURN_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
            )
        except ChildWorkflowError as error:
            # Terminated from outside: recovery undoes it; the conversation goes on without it.
            workflow.logger.warning("turn %s ended without an answer: %s", saga_id, error)
            return
        if result is None:
            return
        self._spent, self._tainted = result.spent, result.tainted
        self._conversation = bounded([*self._conversation, HumanMessage(request.text), *result.messages])
        self._version += 1
        self._ref = self._context().ref

    def _context(self) -> Context:
        return Context(
            tenant=self._start.tenant,
            session=workflow.info().workflow_id,
            version=self._version,
            messages=as_json([*opening(self._start.team), *self._conversation]),
        )

    def _carried(self) -> SessionInput:
        return self._start.model_copy(
            update={
                "conversation": tuple(self._conversation),
                "version": self._version,
                "turn_ids": tuple(self._turns),
                "queued": tuple(self._queue),
                "closed": self._closed,
                "facts": tuple(self._facts.values()),
                "spent": self._spent,
                "tainted": self._tainted,
            }
        )
