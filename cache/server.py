"""The MCP server over the cache: other agents and tools read a session, and put facts. It changes nothing else.

A cached context may be a turn behind the workflow; its version says where it stands.
"""

import hmac
import logging
import socket
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Literal, Protocol

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.tools.base import ToolResult
from pydantic import Field, JsonValue
from pydantic_core import to_json

from countermand.cache.context import ContextCache
from countermand.cache.feed import BEGINNING, Feed
from countermand.cache.types import (
    Context,
    Digest,
    Fact,
    FactConflict,
    FactRefused,
    Facts,
    FeedEvent,
    FeedLost,
    Frozen,
    JsonObject,
    Name,
    PutFact,
    Version,
)

LOOPBACK = "127.0.0.1"
EventId = Annotated[str, Field(pattern=r"^\d{1,20}(-\d{1,20})?$")]
SagaId = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}(/[A-Za-z0-9._-]{1,64}){0,2}$")]


_Read = Callable[..., Awaitable[Frozen | JsonObject]]


class SessionReader(Protocol):
    """What the server asks of the workflows of one tenant. None: no such session or saga (or another tenant's)."""

    async def list_sessions(self) -> tuple[str, ...]:
        """Ids of the tenant's sessions."""
        ...

    async def context(self, session: str) -> Context | None:
        """The session's context as the workflow has it."""
        ...

    async def facts(self, session: str) -> Facts | None:
        """The session's facts as the workflow has them."""
        ...

    async def put_fact(self, session: str, put: PutFact) -> Fact | FactConflict | FactRefused | None:
        """Store a fact if it is at the expected version."""
        ...

    async def saga_status(self, saga_id: str) -> JsonObject | None:
        """A saga's report."""
        ...


Source = Literal["cache", "workflow"]
"""Where an answer came from: the cache, perhaps a little behind the workflow, or the workflow itself."""


class ContextView(Frozen):
    """A context and where it came from."""

    session: str
    version: Version
    digest: Digest
    source: Source
    messages: tuple[JsonObject, ...]


class FeedPage(Frozen):
    """Events of a feed. ``after`` is where to read on; ``available`` is false while Redis is away."""

    available: bool
    after: str
    events: tuple[FeedEvent, ...]


class SessionList(Frozen):
    """Ids of sessions."""

    sessions: tuple[str, ...]


class FactList(Frozen):
    """Facts of one session, and where they came from; ``version`` counts their changes."""

    version: Version
    source: Source
    facts: tuple[Fact, ...]


class _BearerToken(TokenVerifier):
    """The one token of this server."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="countermand", scopes=[])


def create_server(sessions: SessionReader, cache: ContextCache, feed: Feed, token: str | None = None) -> FastMCP:
    """Make the server. An empty token is no token.

    Args:
        sessions: The workflows, of the same tenant as the cache.
        cache: Where contexts are read first.
        feed: The sessions' feeds.
        token: What HTTP clients must send as bearer token; None: for stdio only.
    """
    server = FastMCP(
        "countermand",
        instructions="Sessions of Countermand's agents: read context, facts and feed; put a fact with its version.",
        auth=_BearerToken(token) if token else None,
        mask_error_details=True,
    )
    _Offer(sessions, cache, feed).register(server)
    return server


def listen(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A listening socket for ``serve_http``; port 0 takes a free one.

    Raises:
        OSError: The address cannot be had.
    """
    address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    family, kind, protocol, _, where = address
    # The protocol must be named: asyncio switches Nagle's algorithm off only on sockets that say TCP, and with it
    # every answer waits 40 ms.
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(where)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def serve_http(server: FastMCP, listener: socket.socket) -> None:
    """Serve streamable HTTP at ``/mcp`` until SIGINT or SIGTERM; for stdio there is ``server.run_stdio_async()``.

    Raises:
        ValueError: The server was made without a token.
    """
    if server.auth is None:
        raise ValueError("token: HTTP needs one, or whoever reaches the port reads every session")
    host, port = listener.getsockname()[:2]
    await server.run_http_async(
        show_banner=False,
        host=host,
        port=port,
        sockets=[listener],
        log_level="warning",
        host_origin_protection="auto",
        stateless_http=True,
        json_response=True,
    )


class _Offer:
    """What is offered, each once: as a tool, and what only reads as a resource too. Docstrings are for the client."""

    def __init__(self, sessions: SessionReader, cache: ContextCache, feed: Feed) -> None:
        self._sessions = sessions
        self._cache = cache
        self._feed = feed

    def register(self, server: FastMCP) -> None:
        offers: tuple[tuple[str, _Read], ...] = (
            ("countermand://sessions", self.list_sessions),
            ("countermand://sessions/{session}/context", self.get_context),
            ("countermand://sessions/{session}/facts", self.get_facts),
            ("countermand://sessions/{session}/feed", self.read_feed),
            ("countermand://sagas/{saga_id*}", self.saga_status),
        )
        for uri, read in offers:
            server.resource(uri, mime_type="application/json")(_as_text(read))
            server.tool(read, annotations={"readOnlyHint": True})
        server.tool(self.put_fact)

    async def list_sessions(self) -> SessionList:
        """List the ids of all sessions."""
        return SessionList(sessions=await self._sessions.list_sessions())

    async def get_context(self, session: Name) -> ContextView:
        """Read a session's messages; from the cache if it can, which may be a turn behind the workflow."""
        cached = await self._cache.latest(session)
        if cached is not None:
            return _view(cached, "cache")
        context = await self._sessions.context(session)
        if context is None or context.tenant != self._cache.tenant:
            raise _not_found("session", session)
        await self._cache.put(context.ref, context)
        return _view(context, "workflow")

    async def get_facts(self, session: Name) -> FactList:
        """Read a session's facts, each with its version; from the cache if it can, which may be a minute behind."""
        cached = await self._cache.facts(session)
        if cached is not None:
            return FactList(version=cached.version, source="cache", facts=cached.facts)
        facts = await self._shared_facts(session)
        if facts is None:
            raise _not_found("session", session)
        return FactList(version=facts.version, source="workflow", facts=facts.facts)

    async def put_fact(self, session: Name, name: Name, value: JsonValue, expected_version: Version) -> ToolResult:
        """Store a fact for a session; expected_version is the version you read, or 0 for a new fact."""
        put = PutFact(name=name, value=value, expected_version=expected_version)
        answer = await self._sessions.put_fact(session, put)
        if answer is None:
            raise _not_found("session", session)
        if isinstance(answer, FactRefused):
            raise ToolError(answer.reason, log_level=logging.INFO)
        # After a conflict, too: whoever had an old version is to find the new one.
        await self._shared_facts(session)
        if isinstance(answer, FactConflict):
            current = answer.current_version
            told = f"fact {name!r} is at version {current}, not {expected_version}: read it, then put with {current}"
            return ToolResult(content=told, structured_content=answer.model_dump(mode="json"), is_error=True)
        return ToolResult(structured_content=answer.model_dump(mode="json"))

    async def _shared_facts(self, session: str) -> Facts | None:
        """The facts as the workflow has them, shared; None: not found."""
        facts = await self._sessions.facts(session)
        if facts is None or facts.tenant != self._cache.tenant:
            return None
        await self._cache.put_facts(facts)
        return facts

    async def read_feed(
        self, session: Name, after: EventId = BEGINNING, count: Annotated[int, Field(ge=1, le=1000)] = 100
    ) -> FeedPage:
        """Read a session's events after an event id; read on with the answer's `after`."""
        events = await self._feed.read(session, after, count)
        if isinstance(events, FeedLost):
            return FeedPage(available=False, after=after, events=())
        return FeedPage(available=True, after=events[-1].id if events else after, events=events)

    async def saga_status(self, saga_id: SagaId) -> JsonObject:
        """Read a saga's report: its state, steps, cause and residuals."""
        report = await self._sessions.saga_status(saga_id)
        if report is None:
            raise _not_found("saga", saga_id)
        return report


def _as_text(read: _Read) -> Callable[..., Awaitable[str]]:
    """The same as JSON text, which is what a resource must be."""

    @wraps(read)
    async def text(*args: object, **kwargs: object) -> str:
        return to_json(await read(*args, **kwargs)).decode()

    return text


def _view(context: Context, source: Source) -> ContextView:
    return ContextView(
        session=context.session,
        version=context.version,
        digest=context.digest,
        source=source,
        messages=context.messages,
    )


def _not_found(kind: str, id_: str) -> ToolError:
    return ToolError(f"{kind} {id_!r}: not found", log_level=logging.INFO)
