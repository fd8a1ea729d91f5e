"""How a command comes by its servers: configured ones, running embedded ones, or new embedded ones."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from countermand.embedded.endpoints import Endpoints
from countermand.embedded.errors import EmbeddedError
from countermand.embedded.supervisor import Answer, socket_path
from countermand.settings import Settings

_DEADLINE = 60.0
"""Seconds until the servers must be there, a first start on a slow machine included."""


@asynccontextmanager
async def connected(settings: Settings, *, notify: Callable[[str], None] | None = None) -> AsyncGenerator[Endpoints]:
    """The servers to work with, for as long as the body runs.

    Embedded servers are shared by all commands of a state folder; they are started if none run, and end some seconds
    after the last command.

    Args:
        settings: Configured addresses win over embedded ones.
        notify: Told in a line what takes its time.

    Raises:
        EmbeddedError: They could not be started; the message says what to do.
    """
    if not settings.embedded:
        yield _configured(settings)
        return
    lease = await _lease(settings.state_folder)
    if lease is None:
        if notify:
            notify("Starting Temporal, Valkey, the world and a worker …")
        _spawn(settings.state_folder)
        lease = await _lease(settings.state_folder, deadline=_DEADLINE)
    if lease is None:
        raise EmbeddedError(f"the embedded servers did not start: see {settings.state_folder / 'logs'}")
    answer, writer = lease
    try:
        if answer.endpoints is None:
            raise EmbeddedError(answer.error)
        chosen = settings.model_dump(include=settings.model_fields_set & set(Endpoints.model_fields))
        yield answer.endpoints.model_copy(update=chosen)
    finally:
        writer.close()


async def running(settings: Settings) -> Answer | None:
    """What the folder's supervisor says, or None if none runs."""
    lease = await _lease(settings.state_folder)
    if lease is None:
        return None
    lease[1].close()
    return lease[0]


async def ended(settings: Settings) -> None:
    """Wait until the folder's supervisor has ended: its socket closes when the last server has."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket_path(settings.state_folder))
    except (FileNotFoundError, ConnectionError):
        return
    await reader.read()
    writer.close()


def _configured(settings: Settings) -> Endpoints:
    return Endpoints(
        temporal_host=settings.temporal_host,
        namespace=settings.namespace,
        task_queue=settings.task_queue,
        redis_url=settings.redis_url,
        world_url=settings.world_url,
    )


async def _lease(folder: Path, deadline: float = 0.0) -> tuple[Answer, asyncio.StreamWriter] | None:
    """A connection to the folder's supervisor and its answer, or None if there is none by the deadline."""
    loop = asyncio.get_running_loop()
    until = loop.time() + deadline
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(socket_path(folder))
            line = await reader.readline()
            if line:
                return Answer.model_validate_json(line), writer
            # It was about to end.
            writer.close()
        except (FileNotFoundError, ConnectionError):
            if loop.time() >= until:
                return None
        await asyncio.sleep(0.03)


def _spawn(folder: Path) -> None:
    """Start a supervisor that ends by itself when no command needs it."""
    (folder / "logs").mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "logs" / "supervisor.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "countermand", "up", "--while-used"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "COUNTERMAND_STATE_FOLDER": str(folder)},
        )
