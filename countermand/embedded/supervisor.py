"""The supervisor: one process that runs all servers of a state folder, and ends them together."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import structlog

from countermand.embedded import servers
from countermand.embedded.endpoints import Endpoints
from countermand.embedded.errors import EmbeddedError
from countermand.embedded.process import Server
from countermand.saga.audit.keys import KEY_FILE, create_development_key
from countermand.saga.types import Frozen
from countermand.settings import Settings

LINGER = 5.0
"""Seconds that the servers stay for the next command, when no command needs them any more."""

_LAST_WORDS = 15.0
_LONGEST_SOCKET = 100
log = structlog.get_logger()


class Answer(Frozen):
    """What a supervisor tells whoever connects."""

    pid: int
    logs: str
    endpoints: Endpoints | None = None
    error: str = ""


def socket_path(folder: Path) -> Path:
    """The supervisor's socket; in a folder of our own below /tmp where the state folder's path is too long for one."""
    path = folder / "supervisor.sock"
    if len(str(path)) <= _LONGEST_SOCKET:
        return path
    short = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"countermand-{os.getuid()}" / f"{short}.sock"


@contextlib.asynccontextmanager
async def _alone(folder: Path, *, patience: float) -> AsyncGenerator[bool]:
    """Whether this process is the folder's only supervisor; the lock is gone with the process, however it ends.

    An earlier supervisor that is about to end is waited for, ``patience`` seconds.
    """
    until = asyncio.get_running_loop().time() + patience
    with (folder / "supervisor.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if asyncio.get_running_loop().time() >= until:
                    yield False
                    return
                await asyncio.sleep(0.1)
            else:
                yield True
                return


class Supervisor:
    """Runs the servers.

    Args:
        settings: Names of namespace and task queue, and the state folder.
        ports: The ports to serve on.
        while_used: Stop when no command has been connected for ``LINGER`` seconds.
    """

    def __init__(self, settings: Settings, ports: servers.Ports, *, while_used: bool) -> None:
        self._settings = settings
        self._folder = settings.state_folder
        self._asked = ports
        self._while_used = while_used
        self._stopping = asyncio.Event()
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._leases = 0
        self._lingering: asyncio.TimerHandle | None = None
        self._started: list[Server] = []
        self._watchdog: asyncio.subprocess.Process | None = None

    async def run(self) -> Answer | None:
        """Run the servers until told to stop. Answers None if another supervisor has the folder."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with _alone(self._folder, patience=_LAST_WORDS if self._while_used else 0.0) as alone:
            if not alone:
                return None
            for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(sign, self._stopping.set)
            path = socket_path(self._folder)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.unlink(missing_ok=True)
            listener = await asyncio.start_unix_server(self._serve, path)
            try:
                async with listener:
                    return await self._run_servers()
            finally:
                path.unlink(missing_ok=True)

    async def wait_ready(self) -> Answer:
        """The answer that every client gets, once the servers are healthy or have failed."""
        return await asyncio.shield(self._answer)

    async def _run_servers(self) -> Answer:
        self._watchdog = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "countermand.embedded.watchdog", stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        watching: list[asyncio.Task[None]] = []
        try:
            await self._start()
            watching = [asyncio.create_task(self._keep(server)) for server in self._started]
            await self._stopping.wait()
        except EmbeddedError as error:
            self._answer.set_result(self._say(error=str(error)))
            # Whoever waits for the answer gets it before the socket goes away.
            await asyncio.sleep(0.1)
        finally:
            for task in watching:
                task.cancel()
            for server in reversed(self._started):
                await server.stop()
            if self._watchdog.stdin is not None:
                self._watchdog.kill()
            await self._watchdog.wait()
        return self._answer.result()

    async def _start(self) -> None:
        (self._folder / "logs").mkdir(exist_ok=True)
        if not (self._folder / KEY_FILE).exists():
            create_development_key(self._folder)
        ports = self._asked.claimed()
        endpoints = servers.endpoints_of(self._settings, ports)
        first = [
            servers.temporal(self._settings, ports, self._folder),
            servers.valkey(ports, self._folder),
            servers.world(ports, self._folder),
        ]
        for server in first:
            await self._launch(server)
        await asyncio.gather(*(server.wait_healthy() for server in first))
        await servers.prepare(endpoints)
        worker = servers.worker(self._settings, endpoints, self._folder)
        await self._launch(worker)
        await worker.wait_healthy()
        self._answer.set_result(self._say(endpoints=endpoints))
        self._linger()

    async def _launch(self, server: Server) -> None:
        if server not in self._started:
            self._started.append(server)
        group = await server.start()
        if self._watchdog is not None and self._watchdog.stdin is not None:
            self._watchdog.stdin.write(f"{group}\n".encode())
            await self._watchdog.stdin.drain()

    async def _keep(self, server: Server) -> None:
        """Start a server again when it dies, more and more patiently."""
        patience = 0.2
        while server.process is not None:
            code = await server.process.wait()
            log.warning("server died and is started again", server=server.name, exit_code=code)
            await asyncio.sleep(patience)
            patience = min(patience * 2, 10.0)
            await self._launch(server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a client where the servers are; its connection is its lease on them."""
        self._leases += 1
        self._linger()
        try:
            answer = await self.wait_ready()
            writer.write(answer.model_dump_json().encode() + b"\n")
            await writer.drain()
            await reader.read()
        except ConnectionError:
            log.debug("a client went away")
        finally:
            self._leases -= 1
            self._linger()
            writer.close()

    def _linger(self) -> None:
        """Stop after a while, unless a client comes before."""
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._while_used and self._leases == 0 and self._answer.done():
            self._lingering = asyncio.get_running_loop().call_later(LINGER, self._stopping.set)

    def _say(self, *, endpoints: Endpoints | None = None, error: str = "") -> Answer:
        return Answer(pid=os.getpid(), logs=str(self._folder / "logs"), endpoints=endpoints, error=error)
