"""``countermand world`` against a real world."""

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest

from countermand.cli import main
from countermand.tools.world.server import serve_world


@pytest.fixture(scope="module")
async def url() -> AsyncGenerator[str]:
    async with serve_world() as world:
        yield world.url


async def run(*tokens: str) -> int:
    # In a thread: the world answers from this one's loop.
    return await asyncio.to_thread(main.run, ["world", *tokens])


async def test_a_fault_is_set_listed_and_cleared(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--operation dns.register --kind http_503 --effect after --nth 2 --times 3 --probability 0.5 --seed 7"

    assert await run("fault", "add", *options.split(), "--retry-after", "4", "--json", "--url", url) == 0
    added = json.loads(capsys.readouterr().out)
    assert await run("fault", "list", "--json", "--url", url) == 0
    listed = json.loads(capsys.readouterr().out)
    assert await run("fault", "clear", "--url", url) == 0
    capsys.readouterr()
    assert await run("fault", "list", "--json", "--url", url) == 0

    assert listed == [added]
    expected = {"operation": "dns.register", "kind": "http_503", "effect": "after", "nth": 2, "times": 3}
    assert expected.items() <= added.items()
    assert (added["probability"], added["seed"], added["retry_after_s"], added["fired"]) == (0.5, 7, 4, 0)
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--operation", "dns.registr"),
        ("--kind", "http_777"),
        ("--nth", "0"),
        ("--times", "0"),
        ("--probability", "2"),
        ("--delay", "-1"),
        ("--retry-after", "-1"),
    ],
)
async def test_a_fault_that_makes_no_sense_is_refused_in_one_line_that_names_the_option(
    url: str, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    options = {"--operation": "dns.register", "--kind": "slow", option: value}

    code = await run("fault", "add", "--url", url, *(f"{name}={given}" for name, given in options.items()))

    told = capsys.readouterr()
    assert (code, told.out) == (2, "")
    assert told.err.startswith(f"error: {option}: ")
    assert told.err.count("\n") == 1


async def test_the_state_is_shown_to_programs_and_to_people(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("state", "--json", "--url", url) == 0
    state = json.loads(capsys.readouterr().out)
    assert await run("state", "--url", url) == 0

    assert {"payments", "inventory", "cloud", "dns", "mail", "standing", "ledger"} == state.keys()
    assert "Standing (0)" in capsys.readouterr().out


async def test_reset_and_operations_answer(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("reset", "--json", "--url", url) == 0
    assert json.loads(capsys.readouterr().out) == {"status": "ok"}
    assert await run("operations", "--json") == 0
    names = [operation["name"] for operation in json.loads(capsys.readouterr().out)]
    assert {"payments.authorize", "dns.probe", "mail.send"} <= set(names)
    assert await run("operations") == 0


async def test_a_world_that_does_not_answer_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("state", "--url", "http://127.0.0.1:9") == 1

    told = capsys.readouterr().err
    assert "does not answer" in told
    assert "countermand world serve" in told
    assert told.count("\n") == 1


async def test_what_is_no_world_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        assert [await run("state", "--url", base), await run("state", "--json", "--url", base)] == [1, 1]

    problem = f"error: what answers at {base} is no world: set --url, or COUNTERMAND_WORLD_URL\n"
    assert capsys.readouterr().err == problem * 2


async def test_an_unknown_fault_cannot_be_cleared(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("fault", "clear", "99", "--url", url) == 2
    assert "'99'" in capsys.readouterr().err


async def test_a_taken_port_and_a_missing_folder_are_told(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await run("serve", "--port", url.rpartition(":")[2]) == 1
    assert "--port" in capsys.readouterr().err
    assert await run("serve", "--db", "/no/such/folder/world.db") == 2
    assert "--db" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["serve", "state", "reset", "operations", "fault add", "fault list", "fault clear"])
async def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    await run(*command.split(), "--help")

    assert f"countermand world {command}" in capsys.readouterr().out
