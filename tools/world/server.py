"""Serving the world: in this process for tests, or as a process of its own."""

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from countermand.tools.world.app import create_app
from countermand.tools.world.simulation import Simulation


@dataclass(frozen=True)
class World:
    """A world that is being served."""

    url: str


class _Protocol(H11Protocol):
    """HTTP/1.1, with the transport in the request's state: faults cut connections."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn's own
        super().connection_made(transport)
        self.app_state = {**self.app_state, "transport": transport}


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends the calls that wait when it stops."""

    def __init__(self, db: Path | None, on_ready: Callable[[], None]) -> None:
        app = create_app(db)
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            # Longer than clients keep an idle connection, so that they never send on one that is just being closed.
            timeout_keep_alive=60,
            timeout_graceful_shutdown=5,
        )
        super().__init__(config)
        self._simulation: Simulation = app.state.simulation
        self._on_ready = on_ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._simulation.closing.set()
        await super().shutdown(sockets)

    @contextmanager
    @override
    def capture_signals(self) -> Generator[None]:
        # uvicorn's own would raise the signal again after a clean stop, and take a test's Ctrl-C for itself.
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on; port 0 takes a free one.

    Raises:
        OSError: The port is taken.
    """
    # Named by its protocol, so that asyncio sees TCP and switches Nagle's algorithm off: 1 ms a call, not 44.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError:
        listener.close()
        raise
    return listener


@asynccontextmanager
async def serve_world(db: Path | None = None, port: int = 0) -> AsyncGenerator[World]:
    """Serve the world in this process, on a free port unless one is given."""
    ready = asyncio.Event()
    with listen("127.0.0.1", port) as listener:
        server = _Server(db, ready.set)
        serving = asyncio.create_task(server.serve([listener]))
        await ready.wait()
        try:
            yield World(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            await serving


def run_world(db: Path | None, listener: socket.socket, on_ready: Callable[[], None]) -> None:
    """Serve the world until SIGINT or SIGTERM."""
    asyncio.run(_serve_until_told(_Server(db, on_ready), listener))


async def _serve_until_told(server: uvicorn.Server, listener: socket.socket) -> None:
    for told in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(told, server.handle_exit, told, None)
    await server.serve([listener])
