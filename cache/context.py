"""The context cache: near cache, then Redis; what it cannot vouch for is a miss, and every miss has a counter."""

from collections import Counter

from pydantic import TypeAdapter

from countermand.cache.connection import Connection
from countermand.cache.encoding import Encoding
from countermand.cache.near import NearCache
from countermand.cache.types import CacheCounters, Context, ContextRef, Facts, Name
from countermand.cache.versioned import Happened, VersionedStore

FACTS_TTL = 60.0
"""Seconds that facts stay, read or not: what was stored while Redis was away is seen after that at the latest."""


class ContextCache:
    """Contexts and facts of one tenant, shared by all workers. It never raises because of Redis: it misses, and counts.

    Args:
        connection: To Redis.
        tenant: Whose sessions these are; a part of every key and of every value.
        ttl: Seconds that an unread context stays; reading starts them anew.
        near_bytes: Size of the near cache.
        encoding: Compression, encryption and size limit; the connection's cipher encrypts if None.
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
        self._near = NearCache(near_bytes)
        self._counts = Counter[Happened]()
        encoding = encoding or Encoding(cipher=connection.cipher)
        self._contexts = VersionedStore(
            connection, Context, "ctx", tenant=tenant, ttl=ttl, read_anew=True, encoding=encoding, counts=self._counts
        )
        self._facts = VersionedStore(
            connection,
            Facts,
            "facts",
            tenant=tenant,
            ttl=FACTS_TTL,
            read_anew=False,
            encoding=encoding,
            counts=self._counts,
        )

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
        stored = await self._contexts.read(ref.session)
        if stored is None:
            return None
        if stored.value.version != ref.version:
            self._counts["misses_version"] += 1
            return None
        if stored.digest != ref.digest:
            self._counts["misses_digest"] += 1
            return None
        self._near.put(stored.digest, stored.canonical)
        self._counts["hits_redis"] += 1
        return stored.value

    async def latest(self, session: str) -> Context | None:
        """The session's context as Redis has it, perhaps a turn behind the workflow; for readers, not for turns."""
        stored = await self._contexts.read(session)
        if stored is None:
            return None
        self._counts["hits_redis"] += 1
        return stored.value

    async def put(self, ref: ContextRef, context: Context) -> bool:
        """Share a context unless a newer version is there; True if it was stored.

        Raises:
            ValueError: ``ref`` names another value, or the context belongs to another tenant.
        """
        self._require_own(context.tenant, "context")
        if context.ref != ref:
            raise ValueError(f"ref: names {ref}, but the context is {context.ref}")
        if not self._contexts.takes(context):
            return False
        self._near.put(ref.digest, context.canonical)
        return await self._contexts.write(context)

    async def facts(self, session: str) -> Facts | None:
        """A session's facts as Redis has them, perhaps a minute behind the workflow, which is asked if it is None."""
        stored = await self._facts.read(session)
        if stored is None:
            return None
        self._counts["hits_redis"] += 1
        return stored.value

    async def put_facts(self, facts: Facts) -> bool:
        """Share facts unless newer ones are there; True if they were stored.

        Raises:
            ValueError: They belong to another tenant.
        """
        self._require_own(facts.tenant, "facts")
        return self._facts.takes(facts) and await self._facts.write(facts)

    def _require_own(self, tenant: str, what: str) -> None:
        if tenant != self.tenant:
            raise ValueError(f"{what}: tenant {tenant!r} is not this cache's {self.tenant!r}")
