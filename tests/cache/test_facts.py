from collections.abc import AsyncGenerator

import pytest
from fastmcp import Client
from fastmcp.client.transports import FastMCPTransport
from fastmcp.exceptions import ToolError
from redis.asyncio import Redis

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cache.server import create_server
from countermand.cache.types import CacheCounters, Fact, Facts, JsonObject, PutFact

from .servers import RedisServer
from .sessions import Sessions

KEY = "cm:{default/s1}:facts:1"

Mcp = Client[FastMCPTransport]


def facts(version: int = 1, *, city: str = "Bonn", tenant: str = "default") -> Facts:
    city_fact = Fact(name="city", value=city, version=version)
    return Facts(tenant=tenant, session="s1", version=version, facts=(city_fact,))


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
async def mcp(sessions: Sessions, cache: ContextCache, feed: Feed) -> AsyncGenerator[Mcp]:
    async with Client(create_server(sessions, cache, feed)) as client:
        yield client


async def call(mcp: Mcp, tool: str, **arguments: object) -> JsonObject:
    result = await mcp.call_tool(tool, {"session": "s1"} | arguments, raise_on_error=False)
    assert result.structured_content
    return result.structured_content


async def test_what_one_worker_shares_another_reads(cache: ContextCache, elsewhere: ContextCache) -> None:
    assert await cache.put_facts(facts())
    assert await elsewhere.facts("s1") == facts()
    assert elsewhere.counters() == CacheCounters(hits_redis=1)


async def test_older_facts_do_not_replace_newer(cache: ContextCache, elsewhere: ContextCache) -> None:
    await cache.put_facts(facts(2, city="Ulm"))
    assert not await elsewhere.put_facts(facts(1))
    assert await elsewhere.facts("s1") == facts(2, city="Ulm")


async def test_facts_go_after_a_minute_read_or_not(cache: ContextCache, raw: Redis) -> None:
    await cache.put_facts(facts())
    await raw.pexpire(KEY, 30_000)
    assert await cache.facts("s1")
    assert 0 < await raw.pttl(KEY) <= 30_000


async def test_facts_and_context_of_a_session_have_keys_in_one_slot(cache: ContextCache, raw: Redis) -> None:
    await cache.put_facts(facts())
    assert await raw.keys() == [KEY.encode()]


async def test_a_foreign_tenants_facts_are_neither_shared_nor_read(cache: ContextCache, connection: Connection) -> None:
    await ContextCache(connection, tenant="other").put_facts(facts(tenant="other"))
    with pytest.raises(ValueError, match=r"^facts: tenant 'other' "):
        await cache.put_facts(facts(tenant="other"))
    assert await cache.facts("s1") is None


async def test_facts_that_were_tampered_with_are_not_read(cache: ContextCache, raw: Redis) -> None:
    await cache.put_facts(facts())
    stored = await raw.get(KEY)
    assert isinstance(stored, bytes)
    await raw.set(KEY, stored.replace(b"Bonn", b"Rome"))
    assert await cache.facts("s1") is None
    assert cache.counters().poisoned == 1


async def test_mcp_reads_facts_from_the_cache_and_from_the_workflow_when_redis_lost_them(
    mcp: Mcp, sessions: Sessions, raw: Redis
) -> None:
    await call(mcp, "put_fact", name="city", value="Bonn", expected_version=0)
    expected = {"version": 1, "facts": [{"name": "city", "value": "Bonn", "version": 1}]}
    assert await call(mcp, "get_facts") == expected | {"source": "cache"}
    await raw.flushall()
    assert await call(mcp, "get_facts") == expected | {"source": "workflow"}
    sessions.kept.clear()
    assert await call(mcp, "get_facts") == expected | {"source": "cache"}


async def test_whoever_read_an_old_version_finds_the_new_one_after_the_conflict(mcp: Mcp, sessions: Sessions) -> None:
    await call(mcp, "put_fact", name="city", value="Bonn", expected_version=0)
    await sessions.put_fact("s1", PutFact(name="city", value="Ulm", expected_version=1))
    assert (await call(mcp, "get_facts"))["version"] == 1

    conflict = await call(mcp, "put_fact", name="city", value="Rome", expected_version=1)

    assert conflict == {"current_version": 2}
    assert (await call(mcp, "get_facts"))["facts"] == [{"name": "city", "value": "Ulm", "version": 2}]


async def test_a_fact_that_the_session_refuses_says_why(mcp: Mcp) -> None:
    with pytest.raises(ToolError, match=r"^nobody wants it$"):
        await mcp.call_tool("put_fact", {"session": "s1", "name": "unwanted", "value": 1, "expected_version": 0})


async def test_without_redis_facts_are_stored_and_read_all_the_same(sessions: Sessions, valkey: RedisServer) -> None:
    async with Connection(valkey.url) as connection:
        valkey.kill()
        async with Client(create_server(sessions, ContextCache(connection), Feed(connection))) as mcp:
            stored = await call(mcp, "put_fact", name="city", value="Bonn", expected_version=0)
            read = await call(mcp, "get_facts")
    assert stored == {"name": "city", "value": "Bonn", "version": 1}
    assert (read["source"], read["facts"]) == ("workflow", [stored])
