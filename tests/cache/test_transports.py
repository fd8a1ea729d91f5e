"""The MCP server in a process of its own, as any MCP client meets it."""

import json
import subprocess
import sys
from collections.abc import Generator

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from fastmcp.client.transports import StdioTransport

from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cache.server import create_server, listen, serve_http
from countermand.cache.types import JsonObject

from .contexts import context
from .servers import RedisServer
from .serving import TOKEN
from .sessions import Sessions

MODULE = ["-m", "tests.cache.serving"]
LIST_TOOLS: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE: JsonObject = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READ_FEED: JsonObject = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "read_feed", "arguments": {"session": "s1"}},
}


@pytest.fixture(scope="module")
def url(shared_valkey: RedisServer) -> Generator[str]:
    with listen() as listener:
        fd = listener.fileno()
        server = subprocess.Popen([sys.executable, *MODULE, shared_valkey.url, str(fd)], pass_fds=[fd])
        host, port = listener.getsockname()
        yield f"http://{host}:{port}/mcp"
        server.terminate()
        assert server.wait(timeout=10) in {0, -15}


async def test_over_http_a_client_with_the_token_reads_a_context(url: str, elsewhere: ContextCache) -> None:
    async with Client(url, auth=BearerAuth(TOKEN)) as mcp:
        result = await mcp.call_tool("get_context", {"session": "s1"})
    assert result.structured_content
    assert result.structured_content["digest"] == context(3).digest
    assert await elsewhere.latest("s1") == context(3)


@pytest.mark.parametrize("token", [None, "a token for tests!", "ein Schlüssel"])
async def test_over_http_nobody_else_gets_in(url: str, token: str | None) -> None:
    headers = {} if token is None else {b"Authorization": f"Bearer {token}".encode()}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, json=LIST_TOOLS, headers=headers)
    assert answer.status_code == 401
    assert "s1" not in answer.text


async def test_over_http_another_sites_page_does_not_get_in(url: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example", "Origin": "http://evil.example"}
    async with httpx2.AsyncClient() as http:
        answer = await http.post(url, json=LIST_TOOLS, headers=headers)
    assert answer.status_code in {403, 421}


async def test_over_stdio_a_client_reads_a_context(shared_valkey: RedisServer, elsewhere: ContextCache) -> None:
    async with Client(StdioTransport(sys.executable, [*MODULE, shared_valkey.url], keep_alive=False)) as mcp:
        result = await mcp.call_tool("get_context", {"session": "s1"})
    assert result.structured_content
    assert result.structured_content["digest"] == context(3).digest
    assert await elsewhere.latest("s1") == context(3)


def test_over_stdio_only_the_protocol_is_written_when_redis_dies(valkey: RedisServer) -> None:
    command = [sys.executable, *MODULE, valkey.url]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with server:

        def say(message: JsonObject) -> None:
            assert server.stdin
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()

        def ask(message: JsonObject) -> JsonObject:
            assert server.stdout
            say(message)
            return json.loads(server.stdout.readline())["result"]

        ask(INITIALIZE)
        say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert ask(READ_FEED)["structuredContent"] == {"available": True, "after": "0", "events": []}
        valkey.kill()
        assert ask(READ_FEED)["structuredContent"] == {"available": False, "after": "0", "events": []}
        _, errors = server.communicate()
    assert "Redis is left alone" in errors


@pytest.mark.parametrize("token", [None, ""])
async def test_http_without_a_token_does_not_start(cache: ContextCache, feed: Feed, token: str | None) -> None:
    with listen() as listener, pytest.raises(ValueError, match=r"^token: HTTP needs one"):
        await serve_http(create_server(Sessions(), cache, feed, token), listener)


def test_it_listens_on_loopback_unless_told_otherwise() -> None:
    with listen() as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_taken_port_is_told() -> None:
    with listen() as listener, pytest.raises(OSError, match="Address already in use"):
        listen(port=listener.getsockname()[1])
