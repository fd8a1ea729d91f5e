"""``countermand cache serve`` over a real conversation, as any MCP client meets it."""

import json
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from fastmcp.client.transports import ClientTransport, StdioTransport

from countermand.cache.server import FeedPage
from countermand.cache.types import FeedEvent, JsonObject
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands

ORDER = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers"
TOKEN = "a token for tests"  # noqa: S105 - it opens a server of the test's own

Mcp = Client[ClientTransport]
Serve = Callable[[Commands], AbstractAsyncContextManager[Mcp]]


@asynccontextmanager
async def over_http(commands: Commands) -> AsyncGenerator[Mcp]:
    serving = Commands(commands.folder, {"COUNTERMAND_TOKEN": TOKEN})
    process = await serving.start("cache", "serve", "--transport", "http", "--port", "0", "--json")
    assert process.stdout is not None
    try:
        url = json.loads(await process.stdout.readline())["url"]
        async with Client[ClientTransport](url, auth=BearerAuth(TOKEN)) as mcp:
            yield mcp
    finally:
        process.terminate()
        _, errors = await process.communicate()
    assert errors == b""


@asynccontextmanager
async def over_stdio(commands: Commands) -> AsyncGenerator[Mcp]:
    state = {"COUNTERMAND_STATE_FOLDER": str(commands.folder)}
    command = StdioTransport(commands.python, ["-m", "countermand", "cache", "serve"], env=state, keep_alive=False)
    async with Client[ClientTransport](command) as mcp:
        yield mcp


async def call(mcp: Mcp, tool: str, **arguments: object) -> JsonObject:
    result = await mcp.call_tool(tool, arguments, raise_on_error=False)
    assert isinstance(result.structured_content, dict), result
    return result.structured_content


def events_of(page: JsonObject) -> tuple[FeedEvent, ...]:
    return FeedPage.model_validate(page).events


@pytest.mark.parametrize("serve", [over_http, over_stdio])
async def test_another_agent_reads_a_conversation_and_keeps_a_fact_for_it(
    commands: Commands, embedded_world: WorldUnderTest, serve: Serve
) -> None:
    assert await embedded_world.standing() == []
    session = f"served-{uuid.uuid4().hex[:8]}"
    said = await commands.run("chat", "--session", session, "--yes", "-m", ORDER)
    assert (said.code, said.err) == (0, "")

    async with serve(commands) as mcp:
        context = await call(mcp, "get_context", session=session)
        feed = await call(mcp, "read_feed", session=session, count=1000)
        saga = await call(mcp, "saga_status", saga_id=f"{session}/t1")
        stored = await call(mcp, "put_fact", session=session, name="city", value="Bonn", expected_version=0)
        conflict = await call(mcp, "put_fact", session=session, name="city", value="Ulm", expected_version=0)
        facts = await call(mcp, "get_facts", session=session)

        async def listed() -> bool:
            return session in str(await call(mcp, "list_sessions"))

        await until(listed)

    assert (context["source"], context["version"]) == ("cache", 1)
    assert ORDER in str(context["messages"])
    assert feed["available"]
    assert {"step", "text"} <= {event.kind for event in events_of(feed)}
    assert "capture_payment" in str(saga["steps"])
    assert saga["state"] == "committed"
    assert stored == {"name": "city", "value": "Bonn", "version": 1}
    assert conflict == {"current_version": 1}
    assert facts == {"version": 1, "source": "cache", "facts": [stored]}
