"""Values with a version in Redis, one a session: compare-and-set, and what can't be vouched for makes way."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from pydantic import ValidationError

from countermand.cache.connection import Connection, Unavailable
from countermand.cache.encoding import Encoding, Undecodable
from countermand.cache.types import Versioned

ValueT = TypeVar("ValueT", bound=Versioned)

Happened = Literal[
    "hits_near", "hits_redis", "misses_absent", "misses_version", "misses_digest", "misses_unavailable",
    "poisoned", "puts", "conflicts", "puts_unavailable", "too_large", "circuit_open",
]  # fmt: skip
"""What is counted; ``CacheCounters`` explains each."""

# A stored value is "<version>\n" and the encoded SHA-256 and canonical JSON: Lua needs to read the version only, and
# with a cipher not even the digest is in clear.
_DIGEST_BYTES = 32
_HEADER_BYTES = 17
"""The longest header: 2^53 has 16 digits."""

_READ = """
local size = redis.pcall('STRLEN', KEYS[1])
if type(size) == 'table' or size > tonumber(ARGV[1]) then return redis.call('UNLINK', KEYS[1]) end
if size == 0 then return false end
if tonumber(ARGV[2]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('GET', KEYS[1])
"""
# At an equal version the caller wins: its value came from the workflow.
_WRITE = """
local head = redis.pcall('GETRANGE', KEYS[1], 0, 16)
local stored = type(head) == 'string' and tonumber(string.match(head, '^(%d+)\\n'))
if stored and stored > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1] .. '\\n' .. ARGV[2], 'PX', ARGV[3])
return 1
"""


@dataclass(frozen=True)
class Stored(Generic[ValueT]):
    """A value, and what it was read from: to write it in canonical form again would take longer than to read it."""

    value: ValueT
    digest: str
    canonical: bytes


class VersionedStore(Generic[ValueT]):
    """Values of one kind, of one tenant. It never raises because of Redis: it misses, and counts.

    Args:
        connection: To Redis.
        model: What the values are.
        kind: Their part of every key.
        tenant: Whose they are; a part of every key, and of every value.
        ttl: Seconds that a value stays.
        read_anew: Whether reading starts the ``ttl`` anew.
        encoding: Compression, encryption and size limit.
        counts: Where it counts.
    """

    def __init__(
        self,
        connection: Connection,
        model: type[ValueT],
        kind: str,
        *,
        tenant: str,
        ttl: float,
        read_anew: bool,
        encoding: Encoding,
        counts: Counter[Happened],
    ) -> None:
        self._connection = connection
        self._model = model
        self._kind = kind
        self._tenant = tenant
        self._ttl_ms = int(ttl * 1000)
        self._read_ms = self._ttl_ms if read_anew else 0
        self._encoding = encoding
        self._counts = counts

    def takes(self, value: ValueT) -> bool:
        """Whether a value is within the size limit; one that is not is counted."""
        fits = _DIGEST_BYTES + len(value.canonical) <= self._encoding.max_bytes
        self._counts["too_large"] += not fits
        return fits

    async def write(self, value: ValueT) -> bool:
        """Store a value unless a newer version is there; True if it was stored."""
        plain = bytes.fromhex(value.digest) + value.canonical
        arguments = [value.version, self._encoding.encode(plain), self._ttl_ms]
        try:
            stored = await self._connection.script(_WRITE, self._key(value.session), arguments)
        except Unavailable as error:
            self._counts["circuit_open"] += error.circuit_open
            self._counts["puts_unavailable"] += 1
            return False
        self._counts["puts" if stored else "conflicts"] += 1
        return bool(stored)

    async def read(self, session: str) -> Stored[ValueT] | None:
        """The value that Redis has, or None, which is counted; the caller counts the hit."""
        arguments = [self._encoding.max_stored_bytes, self._read_ms]
        try:
            reply = await self._connection.script(_READ, self._key(session), arguments)
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

    def _decode(self, session: str, value: object) -> Stored[ValueT]:
        if not isinstance(value, bytes):
            raise Undecodable("too large or not a string; removed by the script")
        version, newline, body = value.partition(b"\n")
        if not newline or len(version) >= _HEADER_BYTES or not version.isdigit():
            raise Undecodable("no version")
        plain = self._encoding.decode(body)
        digest, canonical = plain[:_DIGEST_BYTES], plain[_DIGEST_BYTES:]
        if hashlib.sha256(canonical).digest() != digest:
            raise Undecodable("wrong digest")
        read = self._model.model_validate_json(canonical)
        if (read.tenant, read.session, read.version) != (self._tenant, session, int(version)):
            raise Undecodable("another session's value")
        return Stored(read, digest.hex(), canonical)

    async def _remove(self, session: str) -> None:
        """Drop a value that nobody can read, lest its version number keeps the good ones out."""
        try:
            await self._connection.run(lambda: self._connection.redis.unlink(self._key(session)))
        except Unavailable:
            return

    def _key(self, session: str) -> str:
        return f"cm:{{{self._tenant}/{session}}}:{self._kind}:1"
