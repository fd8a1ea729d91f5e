"""Sessions as the MCP server reads them: from the cache where it can, from Temporal where it must."""

from collections.abc import Awaitable
from typing import TypeVar

from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.session import ChatSession, SessionStatus
from countermand.cache.types import Context, Fact, FactConflict, FactRefused, Facts, JsonObject, PutFact, Versioned
from countermand.saga.reading import NoSuchSaga, read_saga
from countermand.saga.sensitive import masked

VersionedT = TypeVar("VersionedT", bound=Versioned)

LISTED = 200
"""The newest sessions that a list shows."""


class TemporalSessions:
    """One tenant's sessions, over a Temporal client. A session of another tenant is not found.

    Args:
        client: Connected with ``CountermandPlugin``.
        tenant: Whose sessions are shown.
    """

    def __init__(self, client: Client, *, tenant: str = "default") -> None:
        self._client = client
        self._tenant = tenant

    async def list_sessions(self) -> tuple[str, ...]:
        """The newest sessions, running or closed."""
        newest = self._client.list_workflows("WorkflowType = 'ChatSession'", limit=LISTED)
        return tuple([one.id async for one in newest if await one.memo_value("tenant", "") == self._tenant])

    async def context(self, session: str) -> Context | None:
        """The conversation of a session."""
        return self._own(await _asked(self._session(session).query(ChatSession.context)))

    async def facts(self, session: str) -> Facts | None:
        """The facts of a session."""
        return self._own(await _asked(self._session(session).query(ChatSession.facts)))

    async def put_fact(self, session: str, put: PutFact) -> Fact | FactConflict | FactRefused | None:
        """Store a fact through the session's workflow."""
        if await self.facts(session) is None:
            return None
        plain = put.model_dump_json()
        if masked(plain) != plain:
            return FactRefused(reason="the value holds a card number or an API key: store a reference to it")
        try:
            return await self._session(session).execute_update(ChatSession.put_fact, put)
        except WorkflowUpdateFailedError as error:
            return FactRefused(reason=str(error.cause))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return FactRefused(reason="the session is closed: its facts stay as they are")
            raise

    async def saga_status(self, saga_id: str) -> JsonObject | None:
        """One saga's ledger, of a session of this tenant."""
        if await self.facts(saga_id.partition("/")[0]) is None:
            return None
        try:
            detail = await read_saga(self._client, saga_id)
        except NoSuchSaga:
            return None
        return detail.model_dump(mode="json")

    def _session(self, session: str) -> WorkflowHandle[ChatSession, SessionStatus]:
        return self._client.get_workflow_handle_for(ChatSession.run, session)

    def _own(self, value: VersionedT | None) -> VersionedT | None:
        return value if value is not None and value.tenant == self._tenant else None


async def _asked(query: Awaitable[VersionedT]) -> VersionedT | None:
    """A session's answer, or None where there is no session."""
    try:
        return await query
    except (WorkflowQueryFailedError, RPCError) as error:
        if isinstance(error, RPCError) and error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return None
