"""``countermand recover``: what the janitor does, now."""

import asyncio
from typing import Annotated

from cyclopts import Parameter

from countermand.cli.console import ERROR, CommandError, progress, say_json, stderr, stdout
from countermand.client import connect
from countermand.embedded import connected
from countermand.saga.janitor import JanitorHealth, SweepInput, janitor_health, sweep
from countermand.saga.names import RECOVER
from countermand.saga.recovery import RecoverySaga
from countermand.saga.types import JsonObject, SagaOptions
from countermand.settings import Settings
from countermand.tools.registry import load_tools


async def recover(
    *,
    saga: Annotated[str | None, Parameter(help="Look at this saga only.")] = None,
    status: Annotated[bool, Parameter(help="Only say when the janitor swept last.")] = False,
    watch: Annotated[bool, Parameter(help="Sweep again every 10 seconds, until Ctrl-C.")] = False,
    json_output: Annotated[bool, Parameter(name="--json", help="One JSON object a sweep.")] = False,
) -> int:
    """Sweep once, or until Ctrl-C."""
    settings = Settings()
    load_tools(settings.tools)
    async with connected(settings, notify=progress) as endpoints:
        client = await connect(endpoints)
        if status:
            return _show(await janitor_health(client), as_json=json_output)
        while True:
            done = await sweep(client, SweepInput(saga_id=saga, options=SagaOptions(audit=True)))
            reports = [
                await client.get_workflow_handle_for(RecoverySaga.run, RECOVER + saga_id).result()
                for saga_id in done.recovered
            ]
            if json_output:
                swept: JsonObject = done.model_dump(mode="json")
                say_json({**swept, "sagas": [report.model_dump(mode="json") for report in reports]})
            else:
                stdout().print(f"Looked at {done.examined} sagas that closed without an end, recovered {len(reports)}.")
                for report in reports:
                    stdout().print(f"  {report.id}: {report.state}")
                for problem in (*done.problems, *done.stuck):
                    stderr().print(f"  {problem}", style="red")
            if not watch:
                return ERROR if done.problems or done.stuck else 0
            await asyncio.sleep(10)


def _show(janitor: JanitorHealth, *, as_json: bool) -> int:
    if as_json:
        say_json(janitor.model_dump(mode="json"))
        return ERROR if janitor.problem else 0
    if janitor.problem or janitor.last_sweep is None:
        raise CommandError(janitor.problem or "the janitor has not swept yet")
    stdout().print(f"The janitor swept at {janitor.last_sweep.isoformat(timespec='seconds')}.")
    return 0
