"""How a command comes by its servers: configured ones, running embedded ones, or new embedded ones."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from countermand.embedded.endpoints import Answer, Endpoints
from countermand.embedded.errors import EmbeddedError
from countermand.embedded.place import make_folder, owner, socket_path
from countermand.settings import Settings

_DEADLINE = 90.0
"""Seconds within which a supervisor that starts has its servers, and one that stops is gone."""

_POLL = 0.03

_spawned: list[subprocess.Popen[bytes]] = []
"""The supervisors that this process has started: they outlive it, and Python complains of children it has forgotten."""


@dataclass(frozen=True)
class Lease:
    """An open connection to a supervisor: as long as it is open, the servers stay.

    Attributes:
        answer: What the supervisor said.
        writer: The connection.
    """

    answer: Answer
    writer: asyncio.StreamWriter


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
        yield Endpoints(
            temporal_host=settings.temporal_host,
            namespace=settings.namespace,
            task_queue=settings.task_queue,
            redis_url=settings.redis_url,
            world_url=settings.world_url,
        )
        return
    lease = await find(settings.state_folder)
    if lease is None:
        if notify:
            notify("Starting Temporal, Valkey, the world and a worker …")
        lease = await _start(settings)
    try:
        yield _usable(lease.answer, settings)
    finally:
        lease.writer.close()


async def find(folder: Path) -> Lease | None:
    """A lease on the folder's servers, or None if none run. Servers that start or stop are waited for.

    Raises:
        EmbeddedError: The supervisor does not answer, or there can be none.
    """
    make_folder(folder)
    try:
        async with asyncio.timeout(_DEADLINE):
            while True:
                # It is not there yet, or about to end, or gone without a farewell: the lock tells.
                with suppress(FileNotFoundError, ConnectionError):
                    reader, writer = await asyncio.open_unix_connection(socket_path(folder))
                    if line := await reader.readline():
                        return Lease(Answer.model_validate_json(line), writer)
                    writer.close()
                if owner(folder) is None:
                    return None
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        raise EmbeddedError(
            f"the supervisor of {folder} (process {owner(folder)}) does not answer: end it, see {folder / 'logs'}"
        ) from error


async def gone(folder: Path) -> None:
    """Wait until the folder's supervisor and its servers are gone.

    Raises:
        EmbeddedError: They are still there after 90 s.
    """
    try:
        async with asyncio.timeout(_DEADLINE):
            while True:
                if owner(folder) is None:
                    return
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        raise EmbeddedError(f"the supervisor of {folder} (process {owner(folder)}) does not stop") from error


async def _start(settings: Settings) -> Lease:
    folder = settings.state_folder
    supervisor = _spawn(settings)
    while (lease := await find(folder)) is None:
        code = supervisor.poll()
        if code:
            raise EmbeddedError(f"the embedded servers did not start: see {folder / 'logs' / 'supervisor.log'}")
        if code == 0:
            # Another supervisor was faster than ours, and has ended meanwhile.
            supervisor = _spawn(settings)
        await asyncio.sleep(_POLL)
    return lease


def _spawn(settings: Settings) -> subprocess.Popen[bytes]:
    """Start a supervisor that ends by itself when no command needs it."""
    with (settings.state_folder / "logs" / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "countermand", "up", "--while-used"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **settings.environment},
        )
    _spawned.append(process)
    return process


def _usable(answer: Answer, settings: Settings) -> Endpoints:
    """The endpoints, if they are what the settings ask for."""
    found = answer.endpoints
    if found is None:
        raise EmbeddedError(answer.error)
    for name, served, asked in (
        ("namespace", found.namespace, settings.namespace),
        ("task queue", found.task_queue, settings.task_queue),
    ):
        if served != asked:
            raise EmbeddedError(
                f"the embedded servers run with the {name} {served}, not {asked}: stop them first (countermand down)"
            )
    return found.model_copy(update=settings.chosen)
