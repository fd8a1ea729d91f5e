"""``countermand replay``: record a saga as a bundle, check the code of today against it, run it again."""

import asyncio
import pkgutil
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from countermand.cli.console import COMMITTED, ERROR, USAGE, CommandError, exit_code_of, say_json, stderr, stdout
from countermand.cli.saga import Json, SagaId, client_of_servers
from countermand.replay import bundle as bundles
from countermand.replay.check import ADVICE
from countermand.replay.check import check as check_bundle
from countermand.replay.run import run as run_bundle
from countermand.settings import Settings
from countermand.tools.registry import load_tools
from countermand.tools.world.control import list_operations
from countermand.tools.world.faults import FaultRequest

replay = App(
    name="replay",
    help="""Record a saga as a bundle, check the code of today against bundles, run one again offline.

Example: countermand replay record order-7 -o order-7.json""",
)
Workflows = Annotated[
    list[str] | None, Parameter(negative="", help="A workflow of one's own, package.module:Class; may be repeated.")
]
Paths = Annotated[list[Path], Parameter(help="Bundles that 'countermand replay record' wrote.")]


@replay.command
async def record(
    saga_id: SagaId,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="The file; SAGA_ID.json if left out.")
    ] = None,
    json_output: Json = False,
) -> int:
    """Write a saga's bundle: its histories with every model exchange and every answer of the world.

    It holds the conversation and all arguments in clear: treat it as you treat the histories themselves.

    Example: countermand replay record chat-1a2b3c4d/t2 -o order.json
    """
    path = output or Path(f"{saga_id.replace('/', '-')}.json")
    if not path.parent.is_dir():
        raise CommandError(f"--output: there is no folder {path.parent}: make it, or name another file", USAGE)
    async with client_of_servers() as client:
        bundle = await bundles.record(client, saga_id)
    await asyncio.to_thread(bundles.save, bundle, path)
    if json_output:
        say_json({"saga": saga_id, "path": str(path), "runs": [run.workflow_id for run in bundle.runs]})
    else:
        stdout().print(f"{path}: {len(bundle.runs)} runs of {saga_id}")
    return COMMITTED


@replay.command
async def check(
    paths: Paths,
    /,
    *,
    workflow: Workflows = None,
    json_output: Json = False,
) -> int:
    """Lead the code of today through bundles; exits with 1 where it parts from one.

    Compares every activity, child workflow and result with its arguments, in order: so that of compensations, too.

    Example: countermand replay check tests/replay/bundles/*.json
    """
    load_tools(Settings().tools)
    workflows = [_workflow(name) for name in workflow or []]
    found = {str(path): await check_bundle(bundles.load(path), workflows) for path in paths}
    if json_output:
        say_json({path: [parting.model_dump(mode="json") for parting in found[path]] for path in found})
    else:
        for path, partings in found.items():
            stdout().print(f"{path}: {'parts' if partings else 'the same'}", soft_wrap=True)
            for parting in partings:
                stderr().print(f"  {parting.message}", style="red", soft_wrap=True, markup=False)
    if not any(found.values()):
        return COMMITTED
    stderr().print(ADVICE, soft_wrap=True)
    return ERROR


@replay.command
async def run(
    path: Annotated[Path, Parameter(help="A bundle.")],
    /,
    *,
    fault: Annotated[
        list[str] | None,
        Parameter(negative="", help="What goes wrong this time: OPERATION[:KIND], http_503 if no kind is given."),
    ] = None,
    workflow: Workflows = None,
    json_output: Json = False,
) -> int:
    """Run a bundle's saga again, offline: the model's recorded answers, today's code, a fresh world.

    What was refused or not answered then is so again. Exits with 1 where its steps are not the recorded ones; with
    --fault, by the saga's state. Operations and kinds are those of 'countermand world fault add'.

    Example: countermand replay run order.json --fault dns.register
    """
    load_tools(Settings().tools)
    workflows = [_workflow(name) for name in workflow or []]
    ran = await run_bundle(bundles.load(path), faults=[_fault(one) for one in fault or []], workflows=workflows)
    if json_output:
        say_json(ran.model_dump(mode="json"))
    else:
        stdout().print(f"{ran.saga.id}: {ran.saga.state}" + (f", {ran.saga.cause.message}" if ran.saga.cause else ""))
        for line in ran.ledger:
            money = f" {line.amount} {line.currency}" if line.amount is not None else ""
            stdout().print(f"  {line.operation} (step {line.step_no}){money}")
        stdout().print("\n".join(ran.differences) or "The steps are the recorded ones.", soft_wrap=True)
    if fault:
        return exit_code_of(ran.saga.state)
    return ERROR if ran.differences else COMMITTED


def _fault(text: str) -> FaultRequest:
    operation, _, kind = text.partition(":")
    known = [one.name for one in list_operations()]
    if operation not in known:
        raise CommandError(f"--fault: there is no operation {operation!r}; there are {', '.join(known)}", USAGE)
    return FaultRequest(operation=operation, kind=kind or "http_503")


def _workflow(name: str) -> type:
    try:
        found: object = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(f"--workflow: {name} can't be imported: {error}", USAGE) from error
    if not isinstance(found, type):
        raise CommandError(f"--workflow: {name} is no class: name it as package.module:Class", USAGE)
    return found
