"""The session feed: step events and streamed tokens on a Redis Stream, for whoever watches. Nothing depends on it."""

import re
from collections.abc import AsyncGenerator, Awaitable
from functools import partial
from typing import cast

from pydantic import TypeAdapter, ValidationError

from countermand.cache.connection import Connection, Unavailable
from countermand.cache.encoding import Encoding, Undecodable
from countermand.cache.types import FeedEvent, FeedLost, Frozen, JsonObject, Name

BEGINNING = "0"
"""Where a reader starts who wants all that is left."""

_FIELD = b"e"
_BLOCK_MS = 500
"""How long Redis holds a waiting reader: also how soon a tail notices that Redis hangs."""

# A key of another type is nothing of ours: it is removed.
_APPEND = """
local function append() return redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'e', ARGV[2]) end
local id = append()
if type(id) == 'table' and id.err and string.find(id.err, 'WRONGTYPE') then
  redis.call('UNLINK', KEYS[1])
  id = append()
end
if type(id) == 'string' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return id
"""

_Reply = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]


class _Payload(Frozen):
    kind: Name
    data: JsonObject


class Feed:
    """Feeds of one tenant's sessions. Without Redis, appending does nothing and readers are told.

    Args:
        connection: To Redis.
        tenant: Whose sessions these are; a part of every key.
        ttl: Seconds after the last event that a feed is kept.
        max_events: About how many events a feed keeps (Redis trims in whole nodes).
        encoding: Compression, encryption, and the size limit of one event; the connection's cipher encrypts if None.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        tenant: str = "default",
        ttl: float = 3600,
        max_events: int = 10_000,
        encoding: Encoding | None = None,
    ) -> None:
        self.tenant = TypeAdapter[str](Name).validate_python(tenant)
        self._connection = connection
        self._ttl_ms = int(ttl * 1000)
        self._max_events = max_events
        self._encoding = encoding or Encoding(max_bytes=256 * 2**10, cipher=connection.cipher)

    async def append(self, session: str, kind: str, data: JsonObject) -> str | None:
        """Add an event; its id, or None if Redis did not take it or it is larger than the encoding allows."""
        plain = _Payload(kind=kind, data=data).model_dump_json().encode()
        if len(plain) > self._encoding.max_bytes:
            return None
        arguments = [self._max_events, self._encoding.encode(plain), self._ttl_ms]
        try:
            reply = await self._connection.script(_APPEND, self._key(session), arguments)
        except Unavailable:
            return None
        return reply.decode() if isinstance(reply, bytes) else None

    async def read(self, session: str, after: str = BEGINNING, count: int = 100) -> tuple[FeedEvent, ...] | FeedLost:
        """Up to ``count`` events after an id, at once.

        Raises:
            ValueError: ``after`` is no event id.
        """
        _require_id(after)
        try:
            reply = await self._connection.run(partial(self._xread, session, after, count=count))
        except Unavailable:
            return FeedLost(after=after)
        return tuple(event for _, event in self._entries(reply) if event)

    async def tail(self, session: str, after: str = BEGINNING) -> AsyncGenerator[FeedEvent | FeedLost]:
        """Events after an id as they come, without end; a ``FeedLost`` is the last item when Redis falls away.

        Raises:
            ValueError: ``after`` is no event id.
        """
        _require_id(after)
        position = after
        while True:
            command = partial(self._xread, session, position, block=_BLOCK_MS)
            try:
                reply = await self._connection.run_blocking(command, _BLOCK_MS / 1000)
            except Unavailable:
                yield FeedLost(after=position)
                return
            for id_, event in self._entries(reply):
                position = id_
                if event:
                    yield event

    def _xread(self, session: str, after: str, *, count: int = 100, block: int | None = None) -> Awaitable[_Reply]:
        command = self._connection.redis.xread({self._key(session): after}, count=count, block=block)
        return cast("Awaitable[_Reply]", command)

    def _entries(self, reply: _Reply) -> list[tuple[str, FeedEvent | None]]:
        """The entries with their ids; an entry that is not ours is None, so that readers can step over it."""
        return [(id_.decode(), self._decode(id_.decode(), fields)) for _, entries in reply for id_, fields in entries]

    def _decode(self, id_: str, fields: dict[bytes, bytes]) -> FeedEvent | None:
        try:
            payload = _Payload.model_validate_json(self._encoding.decode(fields.get(_FIELD, b"")))
        except (Undecodable, ValidationError):
            return None
        return FeedEvent(id=id_, kind=payload.kind, data=payload.data)

    def _key(self, session: str) -> str:
        return f"cm:{{{self.tenant}/{session}}}:feed:1"


def _require_id(after: str) -> None:
    if not re.fullmatch(r"\d{1,20}(-\d{1,20})?", after):
        raise ValueError(f"after: {after!r} is no event id, such as 1700000000000-0; {BEGINNING} is the beginning")
