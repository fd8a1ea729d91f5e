"""What the cache holds and hands out. Frozen; every value is JSON, never pickle."""

import hashlib
from functools import cached_property
from typing import Annotated, Literal

import rfc8785
from pydantic import BaseModel, ConfigDict, Field, JsonValue

JsonObject = dict[str, JsonValue]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
"""Ids of tenants and sessions. The pattern keeps braces and slashes out of Redis keys."""
Version = Annotated[int, Field(ge=0, lt=2**53)]
"""Counts up from 0. Bounded by what JSON and Lua hold exactly."""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Frozen(BaseModel):
    """Base of every value that crosses a boundary."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ContextRef(Frozen):
    """Which context a turn is based on: what travels through Temporal instead of the messages."""

    session: Name
    version: Version
    digest: Digest


class Versioned(Frozen):
    """What a session is at one version; a part of the truth that its workflow has."""

    schema_version: Literal[1] = 1
    tenant: Name
    session: Name
    version: Version

    @cached_property
    def canonical(self) -> bytes:
        """The value as RFC 8785 canonical JSON.

        Raises:
            ValueError: It has no canonical form, as of an integer of 2^53 or more, or a lone surrogate.
        """
        try:
            return rfc8785.dumps(self.model_dump(mode="json"))
        except rfc8785.CanonicalizationError as error:
            raise ValueError(f"session {self.session}: no canonical JSON: {error}") from error

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.canonical).hexdigest()


class Context(Versioned):
    """A session's conversation. Messages are JSON objects; their meaning is the caller's."""

    messages: tuple[JsonObject, ...]

    @property
    def ref(self) -> ContextRef:
        """What names exactly this value."""
        return ContextRef(session=self.session, version=self.version, digest=self.digest)


class Fact(Frozen):
    """A value that a tool or an MCP client stored for a session; ``version`` counts its changes from 1."""

    name: Name
    value: JsonValue
    version: Version


class Facts(Versioned):
    """All facts of a session; ``version`` counts their changes."""

    facts: tuple[Fact, ...]


class PutFact(Frozen):
    """A fact to store, if it is still at the version that the writer read (0: there was none)."""

    name: Name
    value: JsonValue
    expected_version: Version


class FactConflict(Frozen):
    """The fact is at another version than expected; 0 when there is no such fact yet. Nothing was stored."""

    current_version: Version


class FactRefused(Frozen):
    """The session does not take the fact."""

    reason: str


class FeedEvent(Frozen):
    """One event of a session's feed; ``id`` is where a reader resumes after it."""

    id: str
    kind: Name
    data: JsonObject


class FeedLost(Frozen):
    """The feed fell away: ask the workflow, or come back later and resume after ``after``."""

    after: str


class CacheCounters(Frozen):
    """What happened since the start, by reason. Every get is one hit or one miss."""

    hits_near: int = 0
    hits_redis: int = 0
    misses_absent: int = 0
    misses_version: int = Field(default=0, description="An intact value of another version.")
    misses_digest: int = Field(default=0, description="An intact value of the same version, but not the asked one.")
    misses_unavailable: int = Field(default=0, description="Redis did not answer in time, refused, or is avoided.")
    poisoned: int = Field(default=0, description="A miss: a value that failed digest, model or size, and was removed.")
    puts: int = 0
    conflicts: int = Field(default=0, description="Puts that found a newer version.")
    puts_unavailable: int = 0
    too_large: int = Field(default=0, description="Puts over the size limit, not sent.")
    circuit_open: int = Field(default=0, description="Gets and puts that did not even ask Redis.")
