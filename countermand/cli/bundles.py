"""``countermand replay record`` and ``check``: a saga as a bundle, and the code of today against it."""

import asyncio
import pkgutil
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from countermand.cli.console import COMMITTED, ERROR, USAGE, CommandError, say_json, stderr, stdout
from countermand.cli.saga import Json, SagaId, client_of_servers
from countermand.replay import bundle as bundles
from countermand.replay.check import ADVICE
from countermand.replay.check import check as check_bundle
from countermand.settings import Settings
from countermand.tools.registry import load_tools

Workflows = Annotated[
    list[str] | None, Parameter(negative="", help="A workflow of one's own, package.module:Class; may be repeated.")
]
Paths = Annotated[list[Path], Parameter(help="Bundles that 'countermand replay record' wrote.")]


async def record(
    saga_id: SagaId,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="The file; SAGA_ID.json if left out.")
    ] = None,
    json_output: Json = False,
) -> int:
    """Record a bundle; answers the exit code."""
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


async def check(
    paths: Paths,
    /,
    *,
    workflow: Workflows = None,
    json_output: Json = False,
) -> int:
    """Check bundles; answers the exit code."""
    load_tools(Settings().tools)
    workflows = [workflow_named(name) for name in workflow or []]
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


def workflow_named(name: str) -> type:
    """The workflow that ``--workflow`` names, or ``CommandError``."""
    try:
        found: object = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CommandError(f"--workflow: {name} can't be imported: {error}", USAGE) from error
    if not isinstance(found, type):
        raise CommandError(f"--workflow: {name} is no class: name it as package.module:Class", USAGE)
    return found
