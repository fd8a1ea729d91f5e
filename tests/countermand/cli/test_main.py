"""What all commands have in common, without any server."""

from collections.abc import Iterator

import pytest
from cyclopts import App

from countermand.cli import main

OVERALL_FLAGS = {"--help", "-h", "--version"}
WRITE_JSON_ANYWAY = {("swarm", "report"), ("audit", "export"), ("audit", "prove")}


def commands(app: App, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command that does something, by its words."""
    names = [name for name in app if name not in OVERALL_FLAGS]
    for name in names:
        yield from commands(app[name], *path, name)
    if path and not names:
        yield path


ALL = sorted(commands(main.app))


def test_all_commands_are_looked_at() -> None:
    assert {("chat",), ("down",), ("saga", "show"), ("world", "fault", "add"), ("audit", "verify")} <= set(ALL)


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_every_command_has_json_an_example_and_exit_codes_in_its_help(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*command, "--help"]) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "--json" in told or command in WRITE_JSON_ANYWAY
    assert f"Example: countermand {' '.join(command)}" in told or "Example: COUNTERMAND_" in told
    assert "Exit codes: " in told
    assert "[default: False]" not in told


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("MAX_ACTIVITY_RETRIES", "lots", "max_activity_retries: Input should be a valid integer"),
        ("TEMPORAL_HOST", "localhost", "temporal_host: 'localhost' is not host:port"),
        ("TEMPORAL_HOST", "localhost:99999", "temporal_host: 'localhost:99999' is not host:port"),
        ("REDIS_URL", "redi://user:secret@host", "redis_url: scheme 'redi' is none of redis"),
        ("WORLD_URL", "nowhere", "world_url: String should match pattern"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named_in_one_line_that_holds_no_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, problem: str
) -> None:
    monkeypatch.setenv(f"COUNTERMAND_{name}", value)

    assert main.run(["saga", "list"]) == 2

    told = capsys.readouterr().err
    assert told.startswith(f"error: {problem}")
    assert told.count("\n") == 1
    assert "secret" not in told
