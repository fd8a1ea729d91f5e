"""One embedded server as a process: started, watched for health, stopped."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from countermand.embedded.errors import EmbeddedError

START_DEADLINE = 30.0
STOP_DEADLINE = 5.0
"""Seconds until a server must be healthy, and until a server that was asked to stop is killed."""


@dataclass
class Server:
    """How one server is run.

    Attributes:
        name: What it is called in messages and in its log's name.
        command: Program and arguments.
        healthy: Asks whether it answers; false or an exception mean: not yet.
        log: Where its output goes.
        environment: Variables beside our own.
    """

    name: str
    command: list[str]
    healthy: Callable[[], Awaitable[bool]]
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> int:
        """Start it in a process group of its own and wait until it is healthy; answers its process id.

        Raises:
            EmbeddedError: The program is missing, or it ended or stayed silent.
        """
        with self.log.open("ab") as log:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise EmbeddedError(
                    f"{self.name}: {self.command[0]} is not installed: pip install 'countermand[embedded]'"
                ) from error
        return self.process.pid

    async def wait_healthy(self) -> None:
        """Wait until it answers.

        Raises:
            EmbeddedError: It ended or stayed silent.
        """
        deadline = asyncio.get_running_loop().time() + START_DEADLINE
        while asyncio.get_running_loop().time() < deadline:
            if self.process is None or self.process.returncode is not None:
                raise EmbeddedError(f"{self.name} ended at once: {self._last_words()} (its log: {self.log})")
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
        _signal_group(process.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_DEADLINE)
        except TimeoutError:
            _signal_group(process.pid, signal.SIGKILL)
            await process.wait()

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "it said nothing"


def _signal_group(group: int, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, sign)
