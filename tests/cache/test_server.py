import json
from collections.abc import AsyncGenerator

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from fastmcp.client.transports import FastMCPTransport
from fastmcp.exceptions import McpError, ToolError

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cache.server import create_server
from countermand.cache.types import CacheCounters, JsonObject

from .contexts import context
from .servers import RedisServer
from .sessions import SAGA, Sessions

Mcp = Client[FastMCPTransport]


@pytest.fixture
async def mcp(cache: ContextCache, feed: Feed) -> AsyncGenerator[Mcp]:
    async with Client(create_server(Sessions(), cache, feed)) as client:
        yield client


async def call(mcp: Mcp, tool: str, **arguments: object) -> JsonObject:
    result = await mcp.call_tool(tool, dict(arguments))
    assert result.structured_content
    return result.structured_content


async def refused(mcp: Mcp, tool: str, **arguments: object) -> CallToolResult:
    result = await mcp.call_tool(tool, dict(arguments), raise_on_error=False)
    assert result.is_error
    return result


async def resource(mcp: Mcp, path: str) -> JsonObject:
    (content,) = await mcp.read_resource(f"countermand://{path}")
    return json.loads(content.model_dump()["text"])


async def test_sessions_are_listed(mcp: Mcp) -> None:
    assert await call(mcp, "list_sessions") == {"sessions": ["s1"]}
    assert await resource(mcp, "sessions") == {"sessions": ["s1"]}


async def test_a_context_comes_from_the_cache_as_it_stands_there(mcp: Mcp, elsewhere: ContextCache) -> None:
    newest = context(7)
    await elsewhere.put(newest.ref, newest)
    expected = {"session": "s1", "version": 7, "digest": newest.digest, "source": "cache"}
    expected |= {"messages": [{"type": "human", "content": "hello"}]}
    assert await call(mcp, "get_context", session="s1") == expected
    assert await resource(mcp, "sessions/s1/context") == expected


async def test_a_context_that_redis_lost_comes_from_the_workflow_and_is_cached_again(
    mcp: Mcp, elsewhere: ContextCache
) -> None:
    answer = await call(mcp, "get_context", session="s1")
    assert (answer["source"], answer["version"]) == ("workflow", 3)
    assert await elsewhere.get(context(3).ref) == context(3)
    assert (await call(mcp, "get_context", session="s1"))["source"] == "cache"


async def test_a_dead_redis_changes_where_the_answer_comes_from_and_nothing_else(valkey: RedisServer) -> None:
    async with Connection(valkey.url) as connection:
        valkey.kill()
        cache, feed = ContextCache(connection), Feed(connection)
        async with Client(create_server(Sessions(), cache, feed)) as mcp:
            answer = await call(mcp, "get_context", session="s1")
            assert (answer["source"], answer["digest"]) == ("workflow", context(3).digest)
            assert await call(mcp, "read_feed", session="s1") == {"available": False, "after": "0", "events": []}
        assert cache.counters() == CacheCounters(misses_unavailable=1, puts_unavailable=1, circuit_open=1)


@pytest.mark.parametrize("session", ["nobody", "foreign"])
async def test_an_unknown_and_a_foreign_tenants_session_are_both_not_found(mcp: Mcp, session: str) -> None:
    with pytest.raises(ToolError, match=f"^session '{session}': not found$"):
        await mcp.call_tool("get_context", {"session": session})
    with pytest.raises(McpError, match=f"session '{session}': not found"):
        await mcp.read_resource(f"countermand://sessions/{session}/context")
    with pytest.raises(ToolError, match=f"^session '{session}': not found$"):
        await mcp.call_tool("get_facts", {"session": session})
    with pytest.raises(ToolError, match=f"^session '{session}': not found$"):
        await mcp.call_tool("put_fact", {"session": session, "name": "f", "value": 1, "expected_version": 0})


async def test_a_foreign_tenants_context_in_redis_is_not_found(mcp: Mcp, connection: Connection) -> None:
    theirs = context(session="theirs", tenant="other")
    await ContextCache(connection, tenant="other").put(theirs.ref, theirs)
    with pytest.raises(ToolError, match="not found"):
        await mcp.call_tool("get_context", {"session": "theirs"})


async def test_a_fact_is_put_read_and_put_again_with_its_version(mcp: Mcp) -> None:
    first = await call(mcp, "put_fact", session="s1", name="city", value="Bonn", expected_version=0)
    assert first == {"name": "city", "value": "Bonn", "version": 1}
    second = await call(mcp, "put_fact", session="s1", name="city", value={"name": "Köln"}, expected_version=1)
    assert (await call(mcp, "get_facts", session="s1"))["facts"] == [second]
    assert (await resource(mcp, "sessions/s1/facts"))["facts"] == [second]


async def test_a_conflict_is_an_error_that_carries_the_current_version(mcp: Mcp) -> None:
    await call(mcp, "put_fact", session="s1", name="city", value="Bonn", expected_version=0)
    conflict = await refused(mcp, "put_fact", session="s1", name="city", value="Köln", expected_version=0)
    assert conflict.structured_content == {"current_version": 1}
    told = conflict.content[0].model_dump()["text"]
    assert told == "fact 'city' is at version 1, not 0: read it, then put with 1"
    assert (await call(mcp, "get_facts", session="s1"))["facts"] == [{"name": "city", "value": "Bonn", "version": 1}]


async def test_a_feed_is_read_page_by_page(mcp: Mcp, feed: Feed) -> None:
    ids = [await feed.append("s1", "step", {"n": n}) for n in range(3)]
    page = await call(mcp, "read_feed", session="s1", count=2)
    assert page["available"] is True
    assert page["after"] == ids[1]
    rest = await call(mcp, "read_feed", session="s1", after=page["after"])
    assert rest["events"] == [{"id": ids[2], "kind": "step", "data": {"n": 2}}]
    assert (await resource(mcp, "sessions/s1/feed"))["after"] == ids[2]


async def test_a_sagas_status_is_its_report(mcp: Mcp) -> None:
    assert await call(mcp, "saga_status", saga_id="s1/t1") == SAGA
    assert await resource(mcp, "sagas/s1/t1") == SAGA
    with pytest.raises(ToolError, match=r"^saga 's1/t2': not found$"):
        await mcp.call_tool("saga_status", {"saga_id": "s1/t2"})


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("get_context", {"session": "a/../b"}, "session"),
        ("get_context", {}, "session"),
        ("read_feed", {"session": "s1", "after": "yesterday"}, "after"),
        ("read_feed", {"session": "s1", "count": 100_000}, "count"),
        ("put_fact", {"session": "s1", "name": "a b", "value": 1, "expected_version": 0}, "name"),
        ("put_fact", {"session": "s1", "name": "a", "value": 1, "expected_version": -1}, "expected_version"),
        ("saga_status", {"saga_id": "a//b"}, "saga_id"),
    ],
)
async def test_bad_arguments_are_told_by_field_before_anything_happens(
    mcp: Mcp, cache: ContextCache, tool: str, arguments: dict[str, object], field: str
) -> None:
    result = await refused(mcp, tool, **arguments)
    assert field in result.content[0].model_dump()["text"]
    assert cache.counters() == CacheCounters()


async def test_only_put_fact_changes_anything(mcp: Mcp) -> None:
    writers = {
        tool.name for tool in await mcp.list_tools() if not (tool.annotations and tool.annotations.read_only_hint)
    }
    assert writers == {"put_fact"}
