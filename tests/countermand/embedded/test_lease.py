"""Commands that need servers bring them, share them, and leave none behind."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from countermand.embedded import connected
from countermand.embedded.connect import gone
from countermand.embedded.place import owner, socket_path
from countermand.settings import Settings
from tests.countermand.embedded.commands import Commands, Running


async def test_commands_share_servers_that_go_with_the_last_of_them_even_if_it_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / ("a-state-folder-whose-path-is-longer-than-that-of-a-socket-may-be-" * 2)
    commands = Commands(folder)
    assert socket_path(folder).parent != folder

    holder = await commands.start("worker", "--json")
    quick = await commands.run("saga", "list", "--json")
    assert (quick.code, quick.out) == (0, "[]\n")
    assert holder.stdout is not None
    assert b"serving" in await holder.stdout.readline()
    supervisor = owner(folder)
    assert (await commands.run("saga", "list", "--json")).code == 0
    assert owner(folder) == supervisor
    assert (folder / "logs" / "supervisor.log").read_text().count("Temporal UI") == 1

    holder.kill()
    await holder.communicate()
    await gone(folder)
    assert not socket_path(folder).exists()


async def test_an_address_that_was_set_wins_over_an_embedded_one(shared: Commands, running: Running) -> None:
    settings = Settings(state_folder=shared.folder, world_url="http://127.0.0.1:1")

    async with connected(settings) as endpoints:
        assert endpoints == running.endpoints.model_copy(update={"world_url": "http://127.0.0.1:1"})


async def test_servers_of_another_namespace_are_not_taken_for_ones_own(shared: Commands, running: Running) -> None:
    ran = await replace(shared, environment={"COUNTERMAND_NAMESPACE": "other"}).run("saga", "list")

    assert ran.code == 1
    assert ran.err == (
        f"error: the embedded servers run with the namespace {running.endpoints.namespace}, not other: "
        "stop them first (countermand down)\n"
    )


async def test_a_worker_ends_cleanly_when_it_is_told_to(shared: Commands, running: Running) -> None:
    elsewhere = replace(shared, environment={"COUNTERMAND_TEMPORAL_HOST": running.endpoints.temporal_host})
    worker = await elsewhere.start("worker", "--task-queue", "other")
    assert worker.stdout is not None
    assert await worker.stdout.readline() == f"ready: serving other at {running.endpoints.temporal_host}\n".encode()

    worker.terminate()
    _, err = await worker.communicate()
    assert (worker.returncode, err) == (0, b"")


@pytest.mark.usefixtures("running")
async def test_a_worker_that_waits_for_its_server_ends_when_it_is_told_to(shared: Commands) -> None:
    asked = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent:
        host, port = silent.sockets[0].getsockname()
        worker = await replace(shared, environment={"COUNTERMAND_TEMPORAL_HOST": f"{host}:{port}"}).start("worker")
        await asked.wait()
        worker.terminate()
        _, err = await worker.communicate()

    assert (worker.returncode, err) == (0, b"")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"COUNTERMAND_TEMPORAL_HOST": "127.0.0.1:1"},
            "Temporal does not answer at 127.0.0.1:1: start it, or set COUNTERMAND_TEMPORAL_HOST",
        ),
        (
            {"COUNTERMAND_TEMPORAL_HOST": "127.0.0.1:1", "TEMPORAL_PROFILE": "unwritten"},
            "Temporal's standard settings (TEMPORAL_*) can't be used: Profile 'unwritten' not found",
        ),
    ],
)
async def test_a_configured_server_that_is_not_there_is_told_in_one_line(
    commands: Commands, environment: dict[str, str], message: str
) -> None:
    ran = await replace(commands, environment=environment).run("saga", "list")

    assert (ran.code, ran.err) == (1, f"error: {message}\n")
    assert not commands.folder.exists()


async def test_a_namespace_that_is_not_there_is_told_in_one_line(shared: Commands, running: Running) -> None:
    host = running.endpoints.temporal_host
    environment = {"COUNTERMAND_TEMPORAL_HOST": host, "COUNTERMAND_NAMESPACE": "other"}
    ran = await replace(shared, environment=environment).run("saga", "list")

    assert ran.err == f"error: Temporal at {host} has no namespace other: create it, or set COUNTERMAND_NAMESPACE\n"
