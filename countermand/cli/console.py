"""What all commands share: exit codes, errors in one line, JSON on standard output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:  # a command that fails early, or only helps, need not load the engine
    from pydantic import JsonValue

    from countermand.saga.types import SagaState

COMMITTED = 0
ERROR = 1
USAGE = 2
COMPENSATED = 3
NEEDS_ATTENTION = 4
INTERRUPTED = 130

EXIT_CODES = (
    "Exit codes: 0 committed or done, 1 error, 2 usage, 3 compensated, 4 needs attention, 130 interrupted by Ctrl-C."
)

_CODES = {"committed": COMMITTED, "compensated": COMPENSATED, "needs_attention": NEEDS_ATTENTION}


class CommandError(Exception):
    """A command can't do what was asked; ``message`` is one line that says what to do."""

    def __init__(self, message: str, code: int = ERROR) -> None:
        super().__init__(message)
        self.code = code


def exit_code_of(state: SagaState) -> int:
    """The exit code that tells a saga's state; one without an end needs attention."""
    return _CODES.get(state, NEEDS_ATTENTION)


def worst(codes: list[int]) -> int:
    """The worst of several exit codes: 1, then 4, 3, 2, 0."""
    return max(codes, key=(COMMITTED, USAGE, COMPENSATED, NEEDS_ATTENTION, ERROR).index, default=COMMITTED)


def say_json(value: JsonValue) -> None:
    """Print one JSON value on one line of standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def progress(line: str) -> None:
    """Tell a person what takes its time; a program has no use for it."""
    console = stderr()
    if console.is_terminal:
        console.print(line, style="dim")


def stdout() -> Console:
    """For a command's result."""
    return Console(highlight=False)


def stderr() -> Console:
    """For progress and errors."""
    return Console(stderr=True, highlight=False)
