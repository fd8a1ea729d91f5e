"""``countermand``: the command line. Commands are loaded when they are called."""

import os
import sys
import traceback
from importlib.metadata import version

from cyclopts import App, CycloptsError, Parameter

from countermand.cli.console import ERROR, EXIT_CODES, INTERRUPTED, USAGE, CommandError, stderr

app = App(
    name="countermand",
    help="""Teams of LLM agents whose tool calls are steps of sagas: committed, or undone in reverse order.

Example: countermand chat""",
    help_epilogue=EXIT_CODES,
    version=lambda: version("countermand"),
    default_parameter=Parameter(negative=(), show_default=lambda value: str(value) if value else None),
)
# Their help stands here, so that the overview need not load them.
for _place, _help in (
    (
        "chat:chat",
        """Talk to the order agent; each turn is one saga, committed or wholly undone.

        The exit code is the worst turn's.

        Example: countermand chat --yes -m "a small environment in us-east for ada@example.com at ada.example.dev"
        """,
    ),
    (
        "up:up",
        """Run Temporal, Valkey, the world and a worker until Ctrl-C; other commands find them by themselves.

        Where they run already, say where, and have them stay until `countermand down`.

        Example: countermand up --ui-port 8233
        """,
    ),
    (
        "up:down",
        """Stop the embedded servers.

        Example: countermand down
        """,
    ),
    (
        "worker:worker",
        """Serve sagas, agents and tools from the task queue, until SIGTERM or Ctrl-C.

        Example: COUNTERMAND_TEMPORAL_HOST=localhost:7233 countermand worker
        """,
    ),
    (
        "world:world",
        """The world simulator: payments, inventory, cloud, DNS and mail, with their own ledger.

        Example: countermand world state
        """,
    ),
    (
        "mend:saga",
        """List sagas, show one's ledger and timeline, revoke one, decide what one left.

        Example: countermand saga show chat-1a2b3c4d/t2
        """,
    ),
    (
        "agents:agents",
        """Show a team: its agents, what each holds, who hands over to whom.

        Example: countermand agents show --team four
        """,
    ),
    (
        "approvals:approvals",
        """List the calls that wait for a person; grant or refuse one.

        Example: countermand approvals grant chat-1a2b3c4d/t2:3
        """,
    ),
    (
        "recover:recover",
        """Undo what terminated or timed-out sagas left, from their histories; the janitor does so by itself.

        Example: countermand recover --saga chat-1a2b3c4d/t2
        """,
    ),
    (
        "swarm:swarm",
        """Run a batch: one agent saga on every line, watched, bounded, resumable.

        Example: countermand swarm run orders.jsonl
        """,
    ),
    (
        "replay:replay",
        """Record runs as bundles, and check that today's workflow code still replays them.

        Example: countermand replay check tests/replay/bundles/*.json
        """,
    ),
    (
        "reconcile:reconcile",
        """Compare what stands at the providers with what the sagas say; changes nothing without --mend.

        Example: countermand reconcile --json
        """,
    ),
    (
        "setup:setup",
        """Prepare a Temporal server of your own: the search attribute and the janitor's schedule.

        Example: COUNTERMAND_TEMPORAL_HOST=localhost:7233 countermand setup
        """,
    ),
    (
        "audit:audit",
        """The audit log: who decided what on which input, what was done, what was undone.

        Exit codes: 0 done, and nothing found; 1 something was found, or an error; 2 usage.

        Example: countermand audit verify
        """,
    ),
    (
        "cache:cache",
        """Offer sessions, their facts and their feeds to other agents over MCP.

        Example: countermand cache serve
        """,
    ),
):
    app.command(f"countermand.cli.{_place}", name=_place.partition(":")[2], help=_help)


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
    from temporalio.service import RPCError  # noqa: PLC0415

    from countermand.saga.errors import CountermandError  # noqa: PLC0415

    if isinstance(error, CountermandError):
        return str(error), ERROR
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}", ERROR
    if isinstance(error, RPCError):
        return f"Temporal: {error.message}", ERROR
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        if first["type"] == "value_error":
            # Our own words, which name the field and hold no secret.
            return first["msg"].removeprefix("Value error, "), USAGE
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
