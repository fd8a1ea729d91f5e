"""A client's side of a conversation: say something, watch its saga, take the answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.feed import TEXT
from countermand.agents.session import BUSY, ChatSession, Say, SessionInput, TurnTicket
from countermand.agents.team import ORDER_TEAM, Team
from countermand.cache.feed import BEGINNING, Feed
from countermand.cache.types import FeedEvent
from countermand.saga import CountermandError, SagaOptions, SagaReport

POLL = timedelta(milliseconds=100)
"""How often a running saga's ledger is asked for."""


class SessionClosed(CountermandError):
    """The session takes no more messages; start another one."""


class SessionBusy(CountermandError):
    """Too many messages wait for their turn; say it again when one has ended."""


class TurnLost(CountermandError):
    """The turn's workflow was ended from outside; recovery undoes what it did."""


@dataclass(frozen=True, kw_only=True)
class Chat:
    """One session, as a client holds it."""

    client: Client
    task_queue: str
    session: str
    model: str
    team: Team = ORDER_TEAM
    model_queue: str | None = None
    options: SagaOptions = field(default_factory=SagaOptions)
    tenant: str = "default"
    feed: Feed | None = None

    async def say(self, message: Say) -> TurnTicket:
        """Send a message, starting the session if there is none; answers at once.

        Raises:
            SessionClosed: The session has ended, or has had all the turns that a session has.
            SessionBusy: Too many messages wait for their turn.
        """
        start = WithStartWorkflowOperation(
            ChatSession.run,
            SessionInput(
                team=self.team,
                model=self.model,
                model_queue=self.model_queue,
                options=self.options,
                tenant=self.tenant,
            ),
            id=self.session,
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            # Turn numbers are part of saga ids, and those are reused by nobody: a closed session stays closed.
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            memo={"tenant": self.tenant},
        )
        try:
            return await self.client.execute_update_with_start_workflow(
                ChatSession.say, message, start_workflow_operation=start
            )
        except (WorkflowUpdateFailedError, WorkflowAlreadyStartedError) as error:
            # The start keeps its own error, and Python complains on standard error of one that nobody took.
            with suppress(WorkflowAlreadyStartedError):
                await start.workflow_handle()
            if isinstance(error.cause, ApplicationError) and error.cause.type == BUSY:
                raise SessionBusy(f"session {self.session!r}: {error.cause.message}") from error
            raise SessionClosed(f"session {self.session!r} is closed: choose another --session") from error

    async def watch(self, ticket: TurnTicket) -> AsyncGenerator[SagaReport | str]:
        """The saga's ledger each time that it changed, and the model's text as it comes, until the turn ends.

        The feed only makes it prompt: without one, or when it falls away, the workflow is asked every ``POLL``.
        """
        handle = self.client.get_workflow_handle_for(AgentSaga.run, ticket.saga_id)
        answer = asyncio.create_task(self.result(ticket))
        told: asyncio.Queue[str] = asyncio.Queue()
        following = asyncio.create_task(self._follow(ticket, told))
        seen: SagaReport | None = None
        try:
            while not answer.done():
                await asyncio.wait({answer}, timeout=POLL.total_seconds())
                while not told.empty():
                    yield told.get_nowait()
                report = await _ledger(handle) if not answer.done() else None
                if report is not None and report != seen:
                    seen = report
                    yield report
            if answer.exception() is None and answer.result().saga != seen:
                yield answer.result().saga
        finally:
            answer.cancel()
            following.cancel()

    async def _follow(self, ticket: TurnTicket, told: asyncio.Queue[str]) -> None:
        """Put the pieces of the model's text into a queue as the feed brings them."""
        if self.feed is None:
            return
        async for event in self.feed.tail(self.session, BEGINNING):
            if isinstance(event, FeedEvent) and event.kind == TEXT and event.data.get("saga") == ticket.saga_id:
                await told.put(str(event.data.get("text", "")))

    async def result(self, ticket: TurnTicket) -> TurnResult:
        """The turn's answer; waits for it.

        Raises:
            TurnLost: The turn's workflow was terminated, or its session ended before the turn began.
        """
        handle = self.client.get_workflow_handle_for(AgentSaga.run, ticket.saga_id)
        while True:
            try:
                return await handle.result()
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                # A queued turn's workflow does not exist yet.
                session = await self.client.get_workflow_handle(self.session).describe()
                if session.close_time is not None:
                    raise TurnLost(f"session {self.session!r} ended before turn {ticket.turn} began") from error
                await asyncio.sleep(POLL.total_seconds())
            except WorkflowFailureError as error:
                raise TurnLost(
                    f"{ticket.saga_id} was ended from outside ({error.cause}); recovery undoes it"
                ) from error

    async def cancel(self, ticket: TurnTicket, reason: str) -> None:
        """Ask the turn's saga to stop and undo what it did, as soon as it has begun; one that has ended is left."""
        ended = asyncio.gather(self.result(ticket), return_exceptions=True)
        while not ended.done():
            with suppress(RPCError):
                await self.client.get_workflow_handle(ticket.saga_id).cancel(reason=reason)
                break
            await asyncio.wait({ended}, timeout=POLL.total_seconds())
        ended.cancel()


async def _ledger(handle: WorkflowHandle[AgentSaga, TurnResult]) -> SagaReport | None:
    """The saga's ledger, or None while nobody can answer."""
    try:
        return await handle.query("status", result_type=SagaReport, rpc_timeout=timedelta(seconds=1))
    except (RPCError, WorkflowQueryFailedError):
        return None
