"""``countermand replay run``: a bundle's saga once more, and what would have been if."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic import ValidationError

from countermand.cli.bundles import Workflows, workflow_named
from countermand.cli.console import COMMITTED, ERROR, USAGE, CommandError, exit_code_of, say_json, stdout
from countermand.cli.saga import Json
from countermand.replay.bundle import load
from countermand.replay.run import Ran, run
from countermand.saga.types import Money
from countermand.settings import Settings
from countermand.tools.registry import load_tools
from countermand.tools.world.control import list_operations
from countermand.tools.world.faults import FaultRequest


async def rerun(
    path: Annotated[Path, Parameter(help="A bundle.")],
    /,
    *,
    fault: Annotated[
        list[str] | None,
        Parameter(negative="", help="What goes wrong this time: OPERATION[:KIND], http_503 if no kind is given."),
    ] = None,
    own_tools: Annotated[
        bool, Parameter(name="--own-tools", help="Let tools of your own act on the system that they are set to.")
    ] = False,
    workflow: Workflows = None,
    json_output: Json = False,
) -> int:
    """Run a bundle's saga again; answers the exit code."""
    load_tools(Settings().tools)
    workflows = [workflow_named(name) for name in workflow or []]
    faults = [_fault(one) for one in fault or []]
    ran = await run(load(path), faults=faults, workflows=workflows, own_tools=own_tools)
    if json_output:
        say_json(ran.model_dump(mode="json"))
    else:
        stdout().print("\n".join(_told(ran)), soft_wrap=True, markup=False)
    if fault:
        return exit_code_of(ran.saga.state)
    return ERROR if ran.differences else COMMITTED


def _told(ran: Ran) -> Iterator[str]:
    yield f"{ran.saga.id}: {ran.saga.state}" + (f", {ran.saga.cause.message}" if ran.saga.cause else "")
    for line in ran.ledger:
        money = f" {Money(amount=line.amount, currency=line.currency)}" if line.amount and line.currency else ""
        yield f"  {line.operation} (step {line.step_no}){money}"
    yield from ran.differences or ("The steps are the recorded ones.",)


def _fault(text: str) -> FaultRequest:
    operation, _, kind = text.partition(":")
    known = [one.name for one in list_operations()]
    if operation not in known:
        raise CommandError(f"--fault: there is no operation {operation!r}; there are {', '.join(known)}", USAGE)
    try:
        return FaultRequest(operation=operation, kind=kind or "http_503")
    except ValidationError as error:
        raise CommandError(f"--fault: {error.errors()[0]['msg'].removeprefix('Value error, ')}", USAGE) from error
