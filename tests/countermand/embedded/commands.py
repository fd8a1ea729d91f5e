"""Commands as a user calls them: processes of their own, with a state folder of their own."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from countermand.embedded.connect import gone
from countermand.embedded.endpoints import Answer, Endpoints
from countermand.testing.waiting import until


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int | None
    out: str
    err: str


@dataclass(frozen=True)
class Running:
    """A ``countermand up`` whose servers are healthy."""

    process: asyncio.subprocess.Process
    answer: Answer

    @property
    def endpoints(self) -> Endpoints:
        assert self.answer.endpoints is not None
        return self.answer.endpoints

    def servers(self) -> dict[int, str]:
        """The processes that it runs, watchdog included, and how each was called."""
        return {pid: command for pid, parent, command in _processes() if parent == self.answer.pid}

    def server(self, called: str) -> int:
        """The process id of the server in whose command line this is."""
        (pid,) = [pid for pid, command in self.servers().items() if called in command]
        return pid


_IN_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
"""What is typed reaches the program through a terminal, which makes a signal of Ctrl-C."""


@dataclass
class Terminal:
    """A command in a terminal: what it shows, and what is typed."""

    process: asyncio.subprocess.Process
    shown: str = ""

    async def read(self) -> None:
        assert self.process.stdout is not None
        while some := await self.process.stdout.read(4096):
            self.shown += some.decode(errors="replace")

    def type(self, keys: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(keys.encode())

    async def shows(self, text: str) -> None:
        """Wait for a text, and forget what was shown up to its end."""

        async def shown() -> bool:
            return text in self.shown

        await until(shown, deadline=60)
        self.shown = self.shown.partition(text)[2]


@dataclass(frozen=True)
class Commands:
    """Calls ``countermand`` with a state folder."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    python: str = sys.executable

    async def start(self, *arguments: str, stdin: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
        """Start a command that nothing is typed into."""
        return await self._start("-m", "countermand", *arguments, stdin=stdin)

    @asynccontextmanager
    async def in_terminal(self, *arguments: str) -> AsyncGenerator["Terminal"]:
        """Run a command in a terminal of its own; it is killed if the test leaves it running."""
        program = (self.python, "-m", "countermand", *arguments)
        process = await self._start("-c", _IN_TERMINAL, *program, stdin=asyncio.subprocess.PIPE)
        terminal = Terminal(process)
        reading = asyncio.create_task(terminal.read())
        try:
            yield terminal
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await reading

    async def _start(self, *arguments: str, stdin: int) -> asyncio.subprocess.Process:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("COUNTERMAND_", "TEMPORAL_"))}
        return await asyncio.create_subprocess_exec(
            self.python,
            *arguments,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder.parent,
            env={**own, "COUNTERMAND_STATE_FOLDER": str(self.folder), **self.environment},
        )

    async def run(self, *arguments: str, piped: str | None = None) -> Ran:
        """Run a command to its end; what is piped is its standard input."""
        stdin = asyncio.subprocess.DEVNULL if piped is None else asyncio.subprocess.PIPE
        process = await self.start(*arguments, stdin=stdin)
        out, err = await process.communicate(None if piped is None else piped.encode())
        return Ran(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def up(self, *arguments: str) -> AsyncGenerator[Running]:
        """Run the servers; whatever the test did, they are gone afterwards."""
        process = await self.start("up", "--json", *arguments)
        assert process.stdout is not None
        try:
            line = await process.stdout.readline()
            assert line, f"it ended without servers: {(await process.communicate())[1].decode()}"
            yield Running(process, Answer.model_validate_json(line))
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()
            await gone(self.folder)


def alive(processes: dict[int, str]) -> dict[int, str]:
    """Those of the processes that still run."""
    return {pid: command for pid, _, command in _processes() if pid in processes}


def _processes() -> list[tuple[int, int, str]]:
    """Process id, parent and command line of all processes that are not dead and waiting to be collected."""
    listing = subprocess.run(
        ["/bin/ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in listing.stdout.splitlines()]
    return [(int(row[0]), int(row[1]), row[3]) for row in rows if len(row) > 3 and not row[2].startswith("Z")]
