"""``countermand``: the command line. Commands are loaded when they are called."""

import os
import sys
import traceback
from importlib.metadata import version

from cyclopts import App, CycloptsError

from countermand.cli.console import ERROR, EXIT_CODES, USAGE, CommandError, stderr

INTERRUPTED = 130

app = App(
    name="countermand",
    help="Teams of LLM agents whose tool calls are steps of sagas: committed, or undone in reverse order.",
    help_epilogue=EXIT_CODES,
    version=lambda: version("countermand"),
)
app.command("countermand.cli.chat:chat", name="chat")
app.command("countermand.cli.up:up", name="up")
app.command("countermand.cli.up:down", name="down")
app.command("countermand.cli.worker:worker", name="worker")
app.command("countermand.cli.world:app", name="world")
app.command("countermand.cli.mend:saga", name="saga")
app.command("countermand.cli.cache:cache", name="cache")
app.command("countermand.cli.recover:recover", name="recover")
app.command("countermand.cli.reconcile:reconcile", name="reconcile")
app.command("countermand.cli.setup:setup", name="setup")
app.command("countermand.cli.audit:audit", name="audit")
app.command("countermand.cli.replay:replay", name="replay")


def run(arguments: list[str] | None = None) -> int:
    """Run one command; answers its exit code. Errors are one line on standard error."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _fail(str(error), USAGE)
    except CommandError as error:
        return _fail(str(error), error.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough: nothing to tell. What is still unwritten goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    except Exception as error:  # noqa: BLE001 - a bug is told in one line, too
        return _fail(*_told(error))
    return code if isinstance(code, int) else 0


def _told(error: Exception) -> tuple[str, int]:
    """What to say of an error that a command let pass, and its exit code."""
    # Loaded now, so that --help and --version are there at once.
    from pydantic import ValidationError  # noqa: PLC0415

    from countermand.saga.errors import CountermandError  # noqa: PLC0415

    if isinstance(error, CountermandError):
        return str(error), ERROR
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {first['input']!r}", USAGE
    if os.environ.get("COUNTERMAND_DEBUG"):
        traceback.print_exception(error)
    return f"{type(error).__name__}: {error} (a bug: COUNTERMAND_DEBUG=1 shows where)", ERROR


def _fail(message: str, code: int) -> int:
    stderr().print(f"error: {' '.join(message.split())}", style="red", soft_wrap=True, markup=False)
    return code


def main() -> None:
    """Run the command line and leave.

    Leaves by ``os._exit``: a process with a Temporal worker sometimes aborts at interpreter shutdown, where a native
    thread meets the GIL, and the exit code must be ours.
    """
    code = run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
