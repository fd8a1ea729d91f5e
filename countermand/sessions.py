"""Sessions as the MCP server reads them: from the cache where it can, from Temporal where it must."""

from pydantic import JsonValue
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.session import ChatSession, PutFact
from countermand.cache.types import Context, Fact, FactConflict, JsonObject
from countermand.saga.errors import CountermandError
from countermand.saga.reading import NoSuchSaga, read_saga

LISTED = 200
"""The newest sessions that a list shows."""


class FactRefused(CountermandError):
    """The session does not take the fact; the message says why."""


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
        handle = self._client.get_workflow_handle_for(ChatSession.run, session)
        try:
            context = await handle.query(ChatSession.context)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        return context if context.tenant == self._tenant else None

    async def facts(self, session: str) -> tuple[Fact, ...] | None:
        """The facts of a session."""
        if await self.context(session) is None:
            return None
        handle = self._client.get_workflow_handle_for(ChatSession.run, session)
        return await handle.query(ChatSession.facts)

    async def put_fact(
        self, session: str, name: str, value: JsonValue, expected_version: int
    ) -> Fact | FactConflict | None:
        """Store a fact through the session's workflow."""
        if await self.context(session) is None:
            return None
        handle = self._client.get_workflow_handle_for(ChatSession.run, session)
        put = PutFact(name=name, value=value, expected_version=expected_version)
        try:
            return await handle.execute_update(ChatSession.put_fact, put)
        except WorkflowUpdateFailedError as error:
            raise FactRefused(str(error.cause)) from error

    async def saga_status(self, saga_id: str) -> JsonObject | None:
        """One saga's ledger, of a session of this tenant."""
        if await self.context(saga_id.partition("/")[0]) is None:
            return None
        try:
            detail = await read_saga(self._client, saga_id)
        except NoSuchSaga:
            return None
        return detail.model_dump(mode="json")
