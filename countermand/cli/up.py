"""``countermand up`` and ``down``: the embedded servers."""

import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from countermand.cli.console import CommandError, say_json, stdout
from countermand.cli.logs import log_to_stderr
from countermand.embedded.connect import find, gone
from countermand.embedded.endpoints import Answer
from countermand.embedded.place import owner
from countermand.embedded.servers import Ports
from countermand.embedded.supervisor import STAY, Supervisor
from countermand.settings import Settings

Port = Annotated[int, Parameter(help="Port to serve on; a free one if 0.")]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON.")]


async def up(
    *,
    ephemeral: Annotated[bool, Parameter(help="Keep nothing: a state folder of its own that goes at the end.")] = False,
    temporal_port: Port = 0,
    ui_port: Port = 0,
    redis_port: Port = 0,
    world_port: Port = 0,
    json_output: Json = False,
    while_used: Annotated[bool, Parameter(show=False)] = False,
) -> int:
    """Run the servers of the state folder, or say where they run."""
    settings = Settings()
    log_to_stderr()
    ports = Ports(temporal=temporal_port, ui=ui_port, redis=redis_port, world=world_port)
    if not ephemeral:
        return await _run(settings, ports, as_json=json_output, while_used=while_used, note="Ctrl-C stops them.")
    with tempfile.TemporaryDirectory(prefix="countermand-") as folder:
        settings = settings.model_copy(update={"state_folder": Path(folder)})
        note = f"Ctrl-C stops them. Other commands find them with COUNTERMAND_STATE_FOLDER={folder}"
        return await _run(settings, ports, as_json=json_output, while_used=False, note=note)


async def _run(settings: Settings, ports: Ports, *, as_json: bool, while_used: bool, note: str) -> int:
    """Run the servers, or say where they run already."""

    def announce(answer: Answer) -> None:
        _show(answer, as_json=as_json, note=note)

    while (there := await find(settings.state_folder)) is None:
        if await Supervisor(settings, ports, while_used=while_used, announce=announce).run():
            return 0
        # Another command was faster: find it.
    if not while_used:
        there.writer.write(STAY)
        await there.writer.drain()
        _show(there.answer, as_json=as_json, note=f"They run already, supervised by process {there.answer.pid}.")
    there.writer.close()
    return 0


def _show(answer: Answer, *, as_json: bool, note: str) -> None:
    if answer.endpoints is None:
        raise CommandError(answer.error)
    if as_json:
        say_json(answer.model_dump(mode="json", exclude={"error"}))
        return
    console = stdout()
    for name, where in (
        ("Temporal", f"{answer.endpoints.temporal_host}  namespace {answer.endpoints.namespace}"),
        ("Temporal UI", answer.endpoints.temporal_ui or ""),
        ("Valkey", answer.endpoints.redis_url),
        ("World", answer.endpoints.world_url),
        ("Worker", f"task queue {answer.endpoints.task_queue}"),
        ("Logs", answer.logs),
    ):
        console.print(f"{name:<12} {where}", soft_wrap=True)
    console.print(note, style="dim", soft_wrap=True)


async def down(*, json_output: Json = False) -> int:
    """Stop the servers of the state folder, and wait until they are gone."""
    folder = Settings().state_folder
    pid = owner(folder)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    await gone(folder)
    if json_output:
        say_json({"stopped": pid})
    else:
        stdout().print("Stopped." if pid else "They did not run.")
    return 0
