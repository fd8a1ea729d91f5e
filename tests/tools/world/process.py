"""A world in a process of its own."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def world_process(*arguments: str | Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Start it, wait for its one line, and yield it with its URL; it is killed at the end if it still runs."""
    command = [sys.executable, "-m", "countermand", "world", "serve", "--port", "0", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("world ready at http://127.0.0.1:"), line
            yield process, line.split()[3].rstrip(",")
        finally:
            process.kill()
