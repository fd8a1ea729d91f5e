"""One embedded server as a process: started, watched for health, stopped."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from countermand.embedded.errors import EmbeddedError

START_DEADLINE = 60.0
STOP_DEADLINE = 5.0
"""Seconds until a server must be healthy, and until a server that was asked to stop is killed."""


@dataclass(eq=False)
class Server:
    """How one server is run.

    Attributes:
        name: What it is called in messages.
        command: Program and arguments.
        healthy: Asks whether it answers; false or an exception mean: not yet.
        log: Where its output goes.
        environment: Variables beside our own.
    """

    name: str
    command: list[str]
    healthy: Callable[[], Awaitable[bool]]
    log: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    process: asyncio.subprocess.Process | None = None
    log_start: int = 0

    async def start(self, group: int) -> None:
        """Start it in a process group.

        Raises:
            EmbeddedError: The program is missing.
        """
        with self.log.open("ab") as log:
            self.log_start = log.tell()
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**_own_environment(), **self.environment},
                    process_group=group,
                )
            except FileNotFoundError as error:
                raise EmbeddedError(f"{self.name} is not installed: pip install 'countermand[embedded]'") from error

    async def wait_healthy(self) -> None:
        """Wait until it answers.

        Raises:
            EmbeddedError: It ended or stayed silent.
        """
        deadline = asyncio.get_running_loop().time() + START_DEADLINE
        while asyncio.get_running_loop().time() < deadline:
            if self.process is None or self.process.returncode is not None:
                last = self.output().strip().splitlines()[-1:] or ["it said nothing"]
                raise EmbeddedError(f"{self.name} ended at once: {last[0][:300]} (its log: {self.log})")
            with suppress(Exception):
                if await self.healthy():
                    return
            await asyncio.sleep(0.03)
        raise EmbeddedError(f"{self.name} does not answer after {START_DEADLINE:.0f} s (its log: {self.log})")

    async def stop(self) -> None:
        """Ask it to stop; kill it when it does not."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_DEADLINE)
        except TimeoutError:
            process.kill()
            await process.wait()

    def output(self) -> str:
        """What it has said since it was started last."""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")


@asynccontextmanager
async def running(*servers: Server) -> AsyncGenerator[None]:
    """Servers in process groups of their own, which all answer; stopped at the end.

    Raises:
        EmbeddedError: One ended or stayed silent.
    """
    async with AsyncExitStack() as stack:
        for server in servers:
            stack.push_async_callback(server.stop)
            await server.start(group=0)
        for server in servers:
            await server.wait_healthy()
        yield


def _own_environment() -> dict[str, str]:
    """Our environment without Temporal's standard settings: those are the address and the keys of another server."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    return {**own, "TEMPORAL_CONFIG_FILE": os.devnull}
