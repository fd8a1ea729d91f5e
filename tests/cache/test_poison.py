"""Whatever stands in Redis: what the cache cannot vouch for is a counted miss, and a good value replaces it."""

import hashlib
import pickle
import zlib

import pytest
from redis.asyncio import Redis

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.encoding import Encoding
from countermand.cache.types import CacheCounters

from .contexts import KEY, context

GOOD = context()
MIB = 2**20


def stored(plain: bytes, *, version: int = 1, digest: bytes | None = None, marker: bytes = b"j") -> bytes:
    body = (digest or hashlib.sha256(plain).digest()) + plain
    return b"%d\n%s" % (version, marker + (zlib.compress(body) if marker == b"z" else body))


POISON = {
    "a wrong digest": stored(GOOD.canonical.replace(b"hello", b"hallo"), digest=bytes.fromhex(GOOD.digest)),
    "a wrong model": stored(b'{"messages":"all of them"}'),
    "not JSON": stored(b"\xff\xfe"),
    "JSON nested too deep": stored(b"[" * 100_000 + b"]" * 100_000),
    "another schema version": stored(GOOD.canonical.replace(b'"schema_version":1', b'"schema_version":2')),
    "another tenant's context": stored(context(tenant="other").canonical),
    "another session's context": stored(context(session="s2").canonical),
    "a version that its context does not have": stored(GOOD.canonical, version=9_000_000_000_000_000),
    "a version that no number is": b"1" * 5000 + b"\nj",
    "pickle bytes": pickle.dumps({"messages": []}),
    "no version": b"j" + GOOD.canonical,
    "a version in other digits": "\N{ARABIC-INDIC DIGIT ONE}\n".encode() + stored(GOOD.canonical)[2:],
    "an unknown marker": stored(GOOD.canonical, marker=b"q"),
    "truncated zlib": stored(GOOD.canonical, marker=b"z")[:-5],
    "not zlib": b"1\nzzzzzz",
    "a zlib bomb": stored(b" " * (64 * MIB), marker=b"z"),
    "only a version": b"1\n",
}


@pytest.mark.parametrize("value", POISON.values(), ids=POISON.keys())
async def test_a_poisoned_value_is_a_miss_and_makes_way(
    cache: ContextCache, elsewhere: ContextCache, raw: Redis, value: bytes
) -> None:
    await raw.set(KEY, value)
    assert await cache.get(GOOD.ref) is None
    assert cache.counters() == CacheCounters(poisoned=1)
    assert await cache.put(GOOD.ref, GOOD)
    assert await elsewhere.get(GOOD.ref) == GOOD


@pytest.mark.parametrize("value", POISON.values(), ids=POISON.keys())
async def test_a_poisoned_value_is_no_latest(cache: ContextCache, raw: Redis, value: bytes) -> None:
    await raw.set(KEY, value)
    assert await cache.latest("s1") is None


async def test_100_mb_are_not_even_read(cache: ContextCache, raw: Redis) -> None:
    await raw.setrange(KEY, 100 * MIB, b"x")
    before = (await raw.info("stats"))["total_net_output_bytes"]
    assert await cache.get(GOOD.ref) is None
    assert (await raw.info("stats"))["total_net_output_bytes"] - before < MIB
    assert cache.counters() == CacheCounters(poisoned=1)
    assert await raw.exists(KEY) == 0


async def test_a_key_of_another_type_is_a_miss_and_makes_way(cache: ContextCache, raw: Redis) -> None:
    await raw.rpush(KEY, "a", "b")
    assert await cache.get(GOOD.ref) is None
    assert cache.counters() == CacheCounters(poisoned=1)
    assert await cache.put(GOOD.ref, GOOD)


async def test_a_put_replaces_a_key_of_another_type(cache: ContextCache, elsewhere: ContextCache, raw: Redis) -> None:
    await raw.rpush(KEY, "a", "b")
    assert await cache.put(GOOD.ref, GOOD)
    assert await elsewhere.get(GOOD.ref) == GOOD


async def test_a_smaller_limit_elsewhere_makes_a_miss(connection: Connection) -> None:
    large = context(text="x" * 3000)
    await ContextCache(connection).put(large.ref, large)
    small = ContextCache(connection, encoding=Encoding(max_bytes=2000))
    assert await small.get(large.ref) is None
    assert small.counters() == CacheCounters(poisoned=1)
