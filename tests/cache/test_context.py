import pytest
from cryptography.fernet import Fernet
from redis.asyncio import Redis

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.encoding import Encoding
from countermand.cache.types import CacheCounters

from .contexts import KEY, context


async def test_what_one_worker_puts_another_gets_from_redis(cache: ContextCache, elsewhere: ContextCache) -> None:
    base = context()
    assert await cache.put(base.ref, base)
    assert await elsewhere.get(base.ref) == base
    assert elsewhere.counters() == CacheCounters(hits_redis=1)


async def test_the_second_get_comes_from_the_near_cache(
    cache: ContextCache, elsewhere: ContextCache, raw: Redis
) -> None:
    base = context()
    await cache.put(base.ref, base)
    await elsewhere.get(base.ref)
    await raw.flushall()
    assert await elsewhere.get(base.ref) == base
    assert elsewhere.counters() == CacheCounters(hits_redis=1, hits_near=1)


async def test_a_caller_cannot_spoil_the_near_cache(cache: ContextCache) -> None:
    base = context()
    await cache.put(base.ref, base)
    first = await cache.get(base.ref)
    assert first
    first.messages[0]["content"] = "spoilt"
    assert await cache.get(base.ref) == context()


async def test_a_near_value_under_another_sessions_ref_is_no_hit(cache: ContextCache) -> None:
    base = context()
    await cache.put(base.ref, base)
    assert await cache.get(base.ref.model_copy(update={"session": "s2"})) is None
    assert cache.counters() == CacheCounters(puts=1, misses_absent=1)


async def test_the_near_cache_lets_the_least_recently_used_go(connection: Connection, raw: Redis) -> None:
    old, used, new = (context(version) for version in (1, 2, 3))
    small = ContextCache(connection, near_bytes=2 * len(old.canonical))
    await small.put(old.ref, old)
    await small.put(used.ref, used)
    await small.get(used.ref)
    await small.put(new.ref, new)
    await raw.flushall()
    assert await small.get(old.ref) is None
    assert await small.get(used.ref) == used
    assert await small.get(new.ref) == new


async def test_alternating_workers_see_each_others_turns(cache: ContextCache, elsewhere: ContextCache) -> None:
    workers = [cache, elsewhere]
    for version in range(1, 11):
        turn = context(version)
        await workers[version % 2].put(turn.ref, turn)
        assert await workers[(version + 1) % 2].get(turn.ref) == turn
    assert cache.counters() == CacheCounters(puts=5, hits_redis=5)
    assert elsewhere.counters() == CacheCounters(puts=5, hits_redis=5)


async def test_nothing_there_is_a_miss(cache: ContextCache) -> None:
    assert await cache.get(context().ref) is None
    assert cache.counters() == CacheCounters(misses_absent=1)


async def test_another_version_is_a_miss(cache: ContextCache, elsewhere: ContextCache) -> None:
    newer = context(2)
    await cache.put(newer.ref, newer)
    assert await elsewhere.get(context(1).ref) is None
    assert await elsewhere.get(context(3).ref) is None
    assert elsewhere.counters() == CacheCounters(misses_version=2)


async def test_an_older_version_does_not_replace_a_newer(cache: ContextCache, elsewhere: ContextCache) -> None:
    newer, older = context(10), context(9)
    await cache.put(newer.ref, newer)
    assert not await elsewhere.put(older.ref, older)
    assert elsewhere.counters() == CacheCounters(conflicts=1)
    assert await cache.latest("s1") == newer


async def test_at_an_equal_version_the_asked_digest_wins(
    cache: ContextCache, elsewhere: ContextCache, connection: Connection
) -> None:
    accepted, zombie = context(5, text="accepted"), context(5, text="from a late attempt")
    await cache.put(accepted.ref, accepted)
    await elsewhere.put(zombie.ref, zombie)

    third = ContextCache(connection)
    assert await third.get(accepted.ref) is None
    assert third.counters() == CacheCounters(misses_digest=1)
    assert await third.put(accepted.ref, accepted)
    assert await ContextCache(connection).get(accepted.ref) == accepted


async def test_of_10_000_stale_writes_against_a_writer_none_wins(cache: ContextCache, elsewhere: ContextCache) -> None:
    first = context(100)
    await cache.put(first.ref, first)
    stale = [context(version) for version in range(100)]
    for version in range(101, 201):
        fresh = context(version)
        assert await cache.put(fresh.ref, fresh)
        for old in stale:
            assert not await elsewhere.put(old.ref, old)
        assert await cache.latest("s1") == fresh
    assert elsewhere.counters() == CacheCounters(conflicts=10_000)


async def test_a_ref_that_names_another_value_is_refused(cache: ContextCache) -> None:
    with pytest.raises(ValueError, match=r"^ref: names "):
        await cache.put(context(2).ref, context(1))


async def test_a_foreign_tenants_context_is_neither_stored_nor_found(
    cache: ContextCache, connection: Connection
) -> None:
    foreign = ContextCache(connection, tenant="other")
    theirs = context(tenant="other")
    await foreign.put(theirs.ref, theirs)
    with pytest.raises(ValueError, match=r"^context: tenant 'other' "):
        await cache.put(theirs.ref, theirs)
    assert await cache.get(theirs.ref) is None
    assert await cache.latest("s1") is None


async def test_reading_starts_the_ttl_anew(cache: ContextCache, elsewhere: ContextCache, raw: Redis) -> None:
    base = context()
    await cache.put(base.ref, base)
    assert await raw.pttl(KEY) > 3_500_000
    await raw.pexpire(KEY, 60_000)
    await elsewhere.get(base.ref)
    assert await raw.pttl(KEY) > 3_500_000


async def test_a_large_context_is_compressed(cache: ContextCache, elsewhere: ContextCache, raw: Redis) -> None:
    large = context(text="a long talk " * 10_000)
    await cache.put(large.ref, large)
    assert await raw.strlen(KEY) < len(large.canonical) / 10
    assert await elsewhere.get(large.ref) == large


async def test_a_context_over_the_limit_is_not_sent(connection: Connection, raw: Redis) -> None:
    cache = ContextCache(connection, encoding=Encoding(max_bytes=1000))
    large = context(text="x" * 1000)
    assert not await cache.put(large.ref, large)
    assert cache.counters() == CacheCounters(too_large=1)
    assert await raw.dbsize() == 0


async def test_a_context_that_fits_the_limit_with_its_digest_is_stored_and_found(connection: Connection) -> None:
    base = context(text="x" * 1000)
    encoding = Encoding(max_bytes=32 + len(base.canonical))
    assert await ContextCache(connection, encoding=encoding).put(base.ref, base)
    assert await ContextCache(connection, encoding=encoding).get(base.ref) == base


@pytest.mark.parametrize("text", ["a secret", "a secret " * 10_000], ids=["small", "compressed"])
async def test_with_a_cipher_nothing_is_in_clear(connection: Connection, raw: Redis, text: str) -> None:
    encoding = Encoding(cipher=Fernet(Fernet.generate_key()))
    base = context(text=text)
    await ContextCache(connection, encoding=encoding).put(base.ref, base)
    stored = await raw.get(KEY)
    assert isinstance(stored, bytes)
    assert b"secret" not in stored
    assert bytes.fromhex(base.digest) not in stored
    assert await ContextCache(connection, encoding=encoding).get(base.ref) == base


async def test_a_value_under_another_key_is_a_miss(connection: Connection) -> None:
    base = context()
    await ContextCache(connection, encoding=Encoding(cipher=Fernet(Fernet.generate_key()))).put(base.ref, base)
    other = ContextCache(connection, encoding=Encoding(cipher=Fernet(Fernet.generate_key())))
    assert await other.get(base.ref) is None
    assert other.counters() == CacheCounters(poisoned=1)
