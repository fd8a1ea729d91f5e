"""``countermand cache``: the MCP server over sessions, their facts and their feeds."""

import os
from contextlib import AsyncExitStack
from typing import Annotated, Literal

from cyclopts import App, Parameter

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cache.server import LOOPBACK, create_server, listen, serve_http
from countermand.cli.console import ERROR, USAGE, CommandError, say_json, stderr
from countermand.client import connect
from countermand.embedded import connected
from countermand.encryption import load_cipher
from countermand.sessions import TemporalSessions
from countermand.settings import Settings

TOKEN_VARIABLE = "COUNTERMAND_TOKEN"  # noqa: S105 - the variable's name, not the token

cache = App(name="cache")


@cache.command
async def serve(
    *,
    transport: Annotated[Literal["stdio", "http"], Parameter(help="How clients speak to it.")] = "stdio",
    host: Annotated[str, Parameter(help="Address to bind, with http.")] = LOOPBACK,
    port: Annotated[int, Parameter(help="Port to bind, with http; a free one if 0.")] = 8710,
    token_env: Annotated[str, Parameter(help="Variable that holds the bearer token, with http.")] = TOKEN_VARIABLE,
    tenant: Annotated[str, Parameter(help="Whose sessions are served.")] = "default",
    json_output: Annotated[bool, Parameter(name="--json", help="Say where it serves as JSON.")] = False,
) -> int:
    """Serve sessions, facts and feeds to MCP clients. Example: countermand cache serve --transport http."""
    token = os.environ.get(token_env)
    if transport == "http" and not token:
        raise CommandError(f"--transport http needs a token: set {token_env} to a long random string", USAGE)
    settings = Settings()
    cipher = load_cipher(settings.state_folder)
    async with AsyncExitStack() as stack:
        endpoints = await stack.enter_async_context(connected(settings))
        redis = await stack.enter_async_context(Connection(endpoints.redis_url, cipher=cipher))
        sessions = TemporalSessions(await connect(endpoints), tenant=tenant)
        server = create_server(sessions, ContextCache(redis, tenant=tenant), Feed(redis, tenant=tenant), token)
        if transport == "stdio":
            await server.run_stdio_async(show_banner=False)
            return 0
        try:
            listener = listen(host, port)
        except OSError as error:
            raise CommandError(f"--port: {host}:{port} can't be bound: {error.strerror}", ERROR) from error
        url = f"http://{host}:{listener.getsockname()[1]}/mcp"
        if json_output:
            say_json({"url": url})
        else:
            stderr().print(f"serving {url} (bearer token from {token_env})")
        await serve_http(server, listener)
    return 0
