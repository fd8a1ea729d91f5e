"""``countermand replay``: record a saga as a bundle, and check the code of today against it."""

import asyncio
import pkgutil
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from countermand.cli.console import COMMITTED, ERROR, USAGE, CommandError, say_json, stderr, stdout
from countermand.cli.saga import Json, SagaId, client_of_servers
from countermand.replay import bundle as bundles
from countermand.replay.check import ADVICE
from countermand.replay.check import check as check_bundle
from countermand.settings import Settings
from countermand.tools.registry import load_tools

replay = App(
    name="replay",
    help="""Record a saga as a bundle, and check the code of today against bundles.

Example: countermand replay record order-7 -o order-7.json""",
)
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
    workflow: Annotated[
        list[str] | None, Parameter(negative="", help="A workflow of one's own, package.module:Class; may be repeated.")
    ] = None,
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


def _workflow(name: str) -> type:
    try:
        found: object = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(f"--workflow: {name} can't be imported: {error}", USAGE) from error
    if not isinstance(found, type):
        raise CommandError(f"--workflow: {name} is no class: name it as package.module:Class", USAGE)
    return found
