"""The supervisor: one process that runs all servers of a state folder, and ends them together."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable

import structlog

from countermand.embedded import servers
from countermand.embedded.endpoints import Answer, Endpoints
from countermand.embedded.errors import EmbeddedError
from countermand.embedded.place import make_folder, make_socket_folder, socket_path, taken
from countermand.embedded.process import Server
from countermand.saga.audit.keys import KEY_FILE, create_development_key
from countermand.settings import Settings

LINGER = 5.0
"""Seconds that the servers stay for the next command, when no command needs them any more."""

STAY = b"stay\n"
"""What a client says to have the servers run on when no command needs them."""

_LONGEST_PATIENCE = 10.0
_LIVED_WELL = 30.0
log = structlog.get_logger()


class Supervisor:
    """Runs the servers.

    Args:
        settings: Names of namespace and task queue, and the state folder.
        ports: The ports to serve on.
        while_used: Stop when no command has been connected for ``LINGER`` seconds.
        announce: Told where the servers are, once they are healthy.
    """

    def __init__(
        self, settings: Settings, ports: servers.Ports, *, while_used: bool, announce: Callable[[Answer], None]
    ) -> None:
        self._settings = settings
        self._folder = settings.state_folder
        self._ports = ports
        self._while_used = while_used
        self._announce = announce
        self._answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._told = asyncio.Event()
        self._leases: set[asyncio.StreamWriter] = set()
        self._lingering: asyncio.TimerHandle | None = None
        self._started: list[Server] = []
        self._serving: asyncio.Task[None] | None = None

    async def run(self) -> bool:
        """Run the servers until told to stop. Answers false, at once, where another supervisor has the folder.

        Raises:
            EmbeddedError: They could not be started; whoever is connected has been told.
        """
        make_folder(self._folder)
        with taken(self._folder) as lock:
            if lock is None:
                return False
            path = socket_path(self._folder)
            make_socket_folder(path)
            path.unlink(missing_ok=True)
            listener = await asyncio.start_unix_server(self._serve, path)
            try:
                await self._run_until_stopped(lock)
            except EmbeddedError as error:
                await self._tell(error)
                raise
            finally:
                listener.close()
                for lease in self._leases:
                    lease.close()
                path.unlink(missing_ok=True)
        return True

    async def _run_until_stopped(self, lock: int) -> None:
        self._serving = asyncio.create_task(self._run_servers(lock))
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(sign, self._stop)
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving

    def _stop(self) -> None:
        """End the servers; a second signal does not interrupt the end."""
        if self._serving is not None and not self._serving.cancelling():
            self._serving.cancel()

    async def _tell(self, error: EmbeddedError) -> None:
        """Give an error to those who wait for the servers; who had us started comes within moments."""
        self._answer.set_result(self._say(error=str(error)))
        if self._while_used or self._leases:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), LINGER)

    async def _run_servers(self, lock: int) -> None:
        watchdog = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "countermand.embedded.watchdog",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, process_group=0, pass_fds=[lock],
        )  # fmt: skip
        try:
            endpoints = await self._start(watchdog.pid)
            answer = self._say(endpoints=endpoints)
            self._answer.set_result(answer)
            self._announce(answer)
            self._linger()
            await asyncio.gather(*(self._keep(server, watchdog.pid) for server in self._started))
        finally:
            for server in reversed(self._started):
                await server.stop()
            # With it goes what the servers themselves have started.
            os.killpg(watchdog.pid, signal.SIGKILL)
            await watchdog.wait()

    async def _start(self, group: int) -> Endpoints:
        if not (self._folder / KEY_FILE).exists():
            create_development_key(self._folder)
        ports = self._ports.claimed()
        endpoints = servers.endpoints_of(self._settings, ports)
        temporal = servers.temporal(self._settings, ports, self._folder)
        others = [servers.worker(self._settings, endpoints, self._folder, "chats")]
        if "world_url" not in self._settings.chosen:
            others.insert(0, servers.world(ports, self._folder))
        if "redis_url" not in self._settings.chosen:
            others.insert(0, servers.valkey(ports, self._folder))
        # Nobody waits for swarms' worker: a chat is there first.
        swarms = servers.worker(self._settings, endpoints, self._folder, "swarms")
        for server in (temporal, *others, swarms):
            await server.start(group)
            self._started.append(server)
        await asyncio.gather(self._prepared(temporal, endpoints), *(server.wait_healthy() for server in others))
        return endpoints

    async def _prepared(self, temporal: Server, endpoints: Endpoints) -> None:
        await temporal.wait_healthy()
        await servers.prepare(endpoints)

    async def _keep(self, server: Server, group: int) -> None:
        """Start a server again when it dies: at once, then more and more patiently."""
        loop = asyncio.get_running_loop()
        patience = 0.0
        while server.process is not None:
            since = loop.time()
            code = await server.process.wait()
            if loop.time() - since > _LIVED_WELL:
                patience = 0.0
            log.warning("server died and is started again", server=server.name, exit_code=code, after_s=patience)
            await asyncio.sleep(patience)
            patience = min(patience * 2 + 0.25, _LONGEST_PATIENCE)
            await server.start(group)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a client where the servers are; its connection is its lease on them."""
        self._leases.add(writer)
        self._linger()
        try:
            answer = await asyncio.shield(self._answer)
            writer.write(answer.model_dump_json().encode() + b"\n")
            await writer.drain()
            self._told.set()
            while line := await reader.readline():
                if line == STAY:
                    self._while_used = False
        except ConnectionError:
            log.debug("a client went away")
        finally:
            self._leases.discard(writer)
            self._linger()
            writer.close()

    def _linger(self) -> None:
        """Stop after a while, unless a client comes before."""
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None
        if self._while_used and not self._leases and self._answer.done():
            self._lingering = asyncio.get_running_loop().call_later(LINGER, self._stop)

    def _say(self, *, endpoints: Endpoints | None = None, error: str = "") -> Answer:
        return Answer(pid=os.getpid(), logs=str(self._folder / "logs"), endpoints=endpoints, error=error)
