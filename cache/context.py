"""The context cache: near cache, then Redis; what it cannot vouch for is a miss, and every miss has a counter."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from countermand.cache.connection import Connection, Unavailable
from countermand.cache.encoding import Encoding, Undecodable
from countermand.cache.near import NearCache
from countermand.cache.types import CacheCounters, Context, ContextRef, Name

# A stored value is "<version>\n" and the encoded SHA-256 and canonical JSON: Lua needs to read the version only, and
# with a cipher not even the digest is in clear.
_DIGEST_BYTES = 32
_HEADER_BYTES = 17
"""The longest header: 2^53 has 16 digits."""

_READ = """
local size = redis.pcall('STRLEN', KEYS[1])
if type(size) == 'table' or size > tonumber(ARGV[1]) then return redis.call('UNLINK', KEYS[1]) end
if size == 0 then return false end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('GET', KEYS[1])
"""
# At an equal version the caller wins: its ref came from the workflow.
_WRITE = """
local head = redis.pcall('GETRANGE', KEYS[1], 0, 16)
local stored = type(head) == 'string' and tonumber(string.match(head, '^(%d+)\\n'))
if stored and stored > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. '\\n' .. ARGV[2], 'PX', ARGV[3])
return 1
"""

_Event = Literal[
    "hits_near", "hits_redis", "misses_absent", "misses_version", "misses_digest", "misses_unavailable",
    "poisoned", "puts", "conflicts", "puts_unavailable", "too_large", "circuit_open",
]  # fmt: skip


@dataclass(frozen=True)
class _Stored:
    context: Context
    digest: str
    canonical: bytes


class ContextCache:
    """Contexts of one tenant, shared by all workers. It never raises because of Redis: it misses, and counts.

    Args:
        connection: To Redis.
        tenant: Whose sessions these are; a part of every key and of every value.
        ttl: Seconds that an unread context stays; reading starts them anew.
        near_bytes: Size of the near cache.
        encoding: Compression, encryption and size limit.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        tenant: str = "default",
        ttl: float = 3600,
        near_bytes: int = 64 * 2**20,
        encoding: Encoding | None = None,
    ) -> None:
        self.tenant = TypeAdapter[str](Name).validate_python(tenant)
        self._connection = connection
        self._ttl_ms = int(ttl * 1000)
        self._near = NearCache(near_bytes)
        self._encoding = encoding or Encoding()
        self._counts = Counter[_Event]()

    def counters(self) -> CacheCounters:
        """What happened so far."""
        return CacheCounters.model_validate(self._counts)

    async def get(self, ref: ContextRef) -> Context | None:
        """Exactly the context that ``ref`` names, or None: then the workflow has it."""
        near = self._near.get(ref.digest)
        if near is not None:
            context = Context.model_validate_json(near)
            if (context.session, context.version) == (ref.session, ref.version):
                self._counts["hits_near"] += 1
                return context
        stored = await self._read(ref.session)
        if stored is None:
            return None
        if stored.context.version != ref.version:
            self._counts["misses_version"] += 1
            return None
        if stored.digest != ref.digest:
            self._counts["misses_digest"] += 1
            return None
        self._near.put(stored.digest, stored.canonical)
        self._counts["hits_redis"] += 1
        return stored.context

    async def latest(self, session: str) -> Context | None:
        """The session's context as Redis has it, perhaps a turn behind the workflow; for readers, not for turns."""
        stored = await self._read(session)
        if stored is None:
            return None
        self._counts["hits_redis"] += 1
        return stored.context

    async def put(self, ref: ContextRef, context: Context) -> bool:
        """Share a context unless a newer version is there; True if it was stored.

        Raises:
            ValueError: ``ref`` names another value, or the context belongs to another tenant.
        """
        if context.tenant != self.tenant:
            raise ValueError(f"context: tenant {context.tenant!r} is not this cache's {self.tenant!r}")
        if context.ref != ref:
            raise ValueError(f"ref: names {ref}, but the context is {context.ref}")
        plain = bytes.fromhex(ref.digest) + context.canonical
        if len(plain) > self._encoding.max_bytes:
            self._counts["too_large"] += 1
            return False
        self._near.put(ref.digest, context.canonical)
        arguments = [ref.version, self._encoding.encode(plain), self._ttl_ms]
        try:
            stored = await self._connection.script(_WRITE, self._key(ref.session), arguments)
        except Unavailable as error:
            self._counts["circuit_open"] += error.circuit_open
            self._counts["puts_unavailable"] += 1
            return False
        self._counts["puts" if stored else "conflicts"] += 1
        return bool(stored)

    async def _read(self, session: str) -> _Stored | None:
        limit = self._encoding.max_stored_bytes
        try:
            reply = await self._connection.script(_READ, self._key(session), [limit, self._ttl_ms])
        except Unavailable as error:
            self._counts["circuit_open"] += error.circuit_open
            self._counts["misses_unavailable"] += 1
            return None
        if reply is None:
            self._counts["misses_absent"] += 1
            return None
        try:
            return self._decode(session, reply)
        except (Undecodable, ValidationError):
            self._counts["poisoned"] += 1
            await self._remove(session)
            return None

    def _decode(self, session: str, value: object) -> _Stored:
        if not isinstance(value, bytes):
            raise Undecodable("too large or not a string; removed by the script")
        version, newline, body = value.partition(b"\n")
        if not newline or len(version) >= _HEADER_BYTES or not version.isdigit():
            raise Undecodable("no version")
        plain = self._encoding.decode(body)
        digest, canonical = plain[:_DIGEST_BYTES], plain[_DIGEST_BYTES:]
        if hashlib.sha256(canonical).digest() != digest:
            raise Undecodable("wrong digest")
        context = Context.model_validate_json(canonical)
        if (context.tenant, context.session, context.version) != (self.tenant, session, int(version)):
            raise Undecodable("another session's value")
        return _Stored(context, digest.hex(), canonical)

    async def _remove(self, session: str) -> None:
        """Drop a value that nobody can read, lest its version number keeps the good ones out."""
        try:
            await self._connection.run(lambda: self._connection.redis.unlink(self._key(session)))
        except Unavailable:
            return

    def _key(self, session: str) -> str:
        return f"cm:{{{self.tenant}/{session}}}:ctx:1"
