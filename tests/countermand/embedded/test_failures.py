"""What keeps the servers from starting is told in one line, and nothing that was started stays."""

import os
import signal
import socket
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

import countermand
from countermand.embedded.connect import gone
from countermand.embedded.endpoints import Answer
from countermand.embedded.place import owner
from countermand.testing.waiting import until
from tests.countermand.embedded.commands import Commands, Running, alive


@pytest.mark.parametrize("command", [("up",), ("saga", "list")])
async def test_a_missing_program_is_named_with_what_installs_it(
    commands: Commands, tmp_path: Path, command: tuple[str, ...]
) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    modules = (sysconfig.get_path("purelib"), str(Path(countermand.__file__).parent.parent))
    bare = replace(
        commands, python=str(python), environment={"PYTHONPATH": os.pathsep.join(modules), "PATH": str(python.parent)}
    )

    ran = await bare.run(*command)

    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "error: temporal is not installed: pip install 'countermand[embedded]'"
    await gone(commands.folder)


async def test_a_taken_port_is_named_with_its_option(commands: Commands) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        ran = await commands.run("up", "--redis-port", str(port))

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"error: --redis-port: port {port} is taken (Address already in use): choose another\n"


async def test_one_port_is_not_given_to_two_servers(commands: Commands) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ran = await commands.run("up", "--temporal-port", port, "--ui-port", port)

    assert ran.code == 1
    assert ran.err.startswith(f"error: --ui-port: port {port} is taken")


async def test_a_server_that_ends_at_once_is_quoted(commands: Commands) -> None:
    (commands.folder / "temporal.db").mkdir(parents=True)

    ran = await commands.run("up")

    assert ran.code == 1
    assert ran.err.startswith("error: temporal ended at once: ")
    assert ran.err.endswith(f"(its log: {commands.folder}/logs/temporal.log)\n")
    assert ran.err.count("\n") == 1
    assert owner(commands.folder) is None


async def test_a_state_folder_that_can_not_be_made_is_told_in_one_line(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "state")
    misled = replace(commands, environment={"COUNTERMAND_STATE_FOLDER": nowhere})

    for command in (("up",), ("saga", "list")):
        ran = await misled.run(*command)
        assert ran.code == 1
        assert ran.err == (
            f"error: the state folder {nowhere} can't be made (Not a directory): "
            "set COUNTERMAND_STATE_FOLDER to another\n"
        )
    assert (await misled.run("down")).out == "They did not run.\n"


async def test_what_the_command_line_can_not_mean_is_told_in_one_line(commands: Commands) -> None:
    for arguments in (("upp",), ("up", "--redis-port", "many"), ("up", "--redis-port", "70000"), ("saga", "show")):
        ran = await commands.run(*arguments)
        assert ran.code == 2, arguments
        assert ran.err.startswith("error: ")
        assert ran.err.count("\n") == 1


async def test_help_names_the_exit_codes_and_does_not_load_the_engine(commands: Commands) -> None:
    ran = await commands.run("--help")

    assert ran.code == 0
    assert "3 compensated, 4 needs attention" in " ".join(ran.out.split())
    loaded = await replace(commands, environment={"PYTHONPROFILEIMPORTTIME": "1"}).run("--help")
    assert "cyclopts" in loaded.err
    assert "temporalio" not in loaded.err


async def test_a_setting_in_a_file_that_makes_no_sense_is_named(commands: Commands) -> None:
    (commands.folder.parent / ".env").write_text("COUNTERMAND_TEMPORAL_HOST=nonsense\n")

    ran = await commands.run("saga", "list")

    assert ran.code == 2
    assert ran.err == "error: temporal_host: 'nonsense' is not host:port, as localhost:7233 is\n"


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
async def test_servers_that_are_told_to_stop_while_they_start_leave_nothing(
    commands: Commands, sign: signal.Signals
) -> None:
    process = await commands.start("up")
    log = commands.folder / "logs" / "worker.log"

    async def starting() -> bool:
        return log.exists()

    await until(starting, deadline=60)
    servers = Running(process, Answer(pid=process.pid, logs="")).servers()
    process.send_signal(sign)
    out, err = await process.communicate()

    assert (process.returncode, out, err) == (0, b"", b"")
    assert len(servers) > 1
    assert alive(servers) == {}
    assert owner(commands.folder) is None


async def test_what_stands_where_the_socket_should_be_is_no_obstacle(commands: Commands) -> None:
    commands.folder.mkdir()
    (commands.folder / "supervisor.sock").write_text("left over")
    (commands.folder / "supervisor.lock").write_text("nonsense")

    async with commands.up() as servers:
        assert servers.answer.error == ""
