"""A TCP proxy that can be cut and healed: the network between two servers under test."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

_CHUNK = 65536


class TcpProxy:
    """Forwards bytes to a port of this machine until it is cut.

    Attributes:
        port: Where it listens, on 127.0.0.1.
    """

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._open: set[asyncio.StreamWriter] = set()
        self._cut = False
        self.port = 0

    def cut(self) -> int:
        """Reset every connection and refuse new ones; answers how many connections were open."""
        self._cut = True
        severed = len(self._open) // 2
        for writer in self._open:
            writer.transport.abort()
        return severed

    def heal(self) -> None:
        """Forward again."""
        self._cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        if not self._cut:
            # A server that is down refuses: so does the proxy then.
            with suppress(ConnectionError):
                await self._forward(reader, writer)
        writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        ends = (writer, far_writer)
        self._open.update(ends)
        pumps = [asyncio.ensure_future(_pump(reader, far_writer)), asyncio.ensure_future(_pump(far_reader, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._open.difference_update(ends)
            for end in ends:
                end.transport.abort()
            await asyncio.gather(*pumps)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def tcp_proxy(upstream: int) -> AsyncGenerator[TcpProxy]:
    """A proxy to a port of this machine."""
    proxy = TcpProxy(upstream)
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            proxy.cut()
