"""``countermand``: the command line. Commands are loaded when they are called."""

import os
import sys
import traceback
from importlib.metadata import version

from cyclopts import App, CycloptsError
from pydantic import ValidationError

from countermand.cli.console import ERROR, EXIT_CODES, USAGE, CommandError, stderr
from countermand.saga.errors import CountermandError

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
app.command("countermand.cli.audit:audit", name="audit")


def run(arguments: list[str] | None = None) -> int:
    """Run one command; answers its exit code. Errors are one line on standard error."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _fail(" ".join(str(error).split()), USAGE)
    except (CommandError, CountermandError) as error:
        return _fail(str(error), error.code if isinstance(error, CommandError) else ERROR)
    except ValidationError as error:
        first = error.errors()[0]
        return _fail(f"{'.'.join(map(str, first['loc']))}: {first['msg']}, not {first['input']!r}", USAGE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a bug is told in one line, too
        if os.environ.get("COUNTERMAND_DEBUG"):
            traceback.print_exc()
        return _fail(f"{type(error).__name__}: {error} (a bug: COUNTERMAND_DEBUG=1 shows where)", ERROR)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    stderr().print(f"error: {message}", style="red", soft_wrap=True, markup=False)
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
