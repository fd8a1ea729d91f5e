"""``countermand up`` and ``down``: the embedded servers."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from countermand.cli.console import ERROR, CommandError, say_json, stdout
from countermand.embedded import ended, running
from countermand.embedded.servers import Ports
from countermand.embedded.supervisor import Answer, Supervisor
from countermand.settings import Settings

up = App(
    name="up",
    help="""Run Temporal, Valkey, the world and a worker until Ctrl-C; other commands find them by themselves.

Example: countermand up --ui-port 8233""",
)
down = App(name="down", help="Stop the embedded servers.\n\nExample: countermand down")

Port = Annotated[int, Parameter(help="Port to serve on; a free one if 0.")]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]


@up.default
async def _up(
    *,
    ephemeral: Annotated[
        bool, Parameter(negative="", help="Keep nothing: a state folder that goes at the end.")
    ] = False,
    temporal_port: Port = 0,
    ui_port: Port = 0,
    redis_port: Port = 0,
    world_port: Port = 0,
    json_output: Json = False,
    while_used: Annotated[bool, Parameter(negative="", show=False)] = False,
) -> int:
    settings = Settings()
    ports = Ports(temporal=temporal_port, ui=ui_port, redis=redis_port, world=world_port)
    if ephemeral:
        with tempfile.TemporaryDirectory(prefix="countermand-") as folder:
            return await _run(settings.model_copy(update={"state_folder": Path(folder)}), ports, as_json=json_output)
    there = await running(settings)
    if there is not None and not while_used:
        _show(there, as_json=json_output, note=f"They run already, supervised by process {there.pid}.")
        return 0
    return await _run(settings, ports, as_json=json_output, while_used=while_used)


async def _run(settings: Settings, ports: Ports, *, as_json: bool, while_used: bool = False) -> int:
    supervisor = Supervisor(settings, ports, while_used=while_used)
    serving = asyncio.create_task(supervisor.run())
    ready = asyncio.create_task(supervisor.wait_ready())
    await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        answer = ready.result()
        if answer.error:
            await serving
            raise CommandError(answer.error)
        _show(answer, as_json=as_json, note=None if while_used else "Ctrl-C stops them.")
    ready.cancel()
    return 0 if await serving is not None else ERROR


def _show(answer: Answer, *, as_json: bool, note: str | None) -> None:
    if as_json:
        say_json(answer.model_dump(mode="json", exclude={"error"}))
        return
    if answer.endpoints is None:
        raise CommandError(answer.error)
    table = Table.grid(padding=(0, 2))
    for name, where in (
        ("Temporal", f"{answer.endpoints.temporal_host}  namespace {answer.endpoints.namespace}"),
        ("Temporal UI", answer.endpoints.temporal_ui or ""),
        ("Valkey", answer.endpoints.redis_url),
        ("World", answer.endpoints.world_url),
        ("Worker", f"task queue {answer.endpoints.task_queue}"),
        ("Logs", answer.logs),
    ):
        table.add_row(name, where)
    console = stdout()
    console.print(table)
    if note:
        console.print(note, style="dim")


@down.default
async def _down(*, json_output: Json = False) -> int:
    settings = Settings()
    there = await running(settings)
    if there is not None:
        os.kill(there.pid, signal.SIGTERM)
        await ended(settings)
    if json_output:
        say_json({"stopped": there.pid if there else None})
    else:
        stdout().print("Stopped." if there else "They did not run.")
    return 0
