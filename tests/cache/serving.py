"""``python -m tests.cache.serving REDIS_URL [FD]``: the MCP server, over stdio or on a socket that listens already."""

import asyncio
import socket
import sys

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cache.server import create_server, serve_http

from .conftest import PATIENT
from .sessions import Sessions

TOKEN = "a token for tests"  # noqa: S105 - it opens a server of the test's own


async def main(redis_url: str, listener: socket.socket | None) -> None:
    async with Connection(redis_url, PATIENT) as connection:
        cache, feed = ContextCache(connection), Feed(connection)
        if listener is None:
            await create_server(Sessions(), cache, feed).run_stdio_async(show_banner=False)
        else:
            await serve_http(create_server(Sessions(), cache, feed, TOKEN), listener)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], socket.socket(fileno=int(sys.argv[2])) if len(sys.argv) > 2 else None))
