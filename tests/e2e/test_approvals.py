"""Approvals and teams as users meet them: at the prompt, from another terminal, and in a program's output."""

import json
from pathlib import Path

import pytest

from countermand.agents.team import FOUR_AGENTS, ORDER_TEAM
from countermand.cli import main
from countermand.saga.types import ApprovalRequest
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands
from tests.e2e.test_chat import ORDER, kinds
from tests.saga.orders import EFFECTS


@pytest.fixture
def asking(tmp_path: Path) -> str:
    """A team's file: every charge needs an approval."""
    path = tmp_path / "team.yaml"
    team = ORDER_TEAM.model_copy(update={"approvals": {"authorize_payment": "always"}})
    path.write_text(team.model_dump_json())
    return str(path)


async def waiting(commands: Commands) -> list[ApprovalRequest]:
    listed = await commands.run("approvals", "list", "--json")
    return [ApprovalRequest.model_validate(one) for one in json.loads(listed.out)]


async def test_a_program_is_told_what_waits_and_goes_on_when_another_process_grants_it(
    commands: Commands, embedded_world: WorldUnderTest, asking: str
) -> None:
    process = await commands.start("chat", "--team", asking, "--yes", "-m", ORDER, "--json")
    await until(lambda: waiting(commands))
    (request,) = await waiting(commands)

    other = await commands.run("approvals", "grant", request.id, "--digest", "sha256:" + "0" * 64)
    granted = await commands.run("approvals", "grant", request.id, "--by", "grace", "--digest", request.digest)
    out, _ = await process.communicate()
    late = await commands.run("approvals", "refuse", request.id)

    told, turn = map(json.loads, out.decode().splitlines())
    assert (other.code, "other arguments" in other.err) == (1, True)
    assert (granted.code, process.returncode, late.code) == (0, 0, 1)
    assert "granted by grace" in late.out
    assert told["approval"]["id"] == request.id
    assert [one["rule"] for one in turn["verdicts"] if one["verdict"] == "needs_approval"] == ["approval.always"]
    assert kinds(await embedded_world.state()) == sorted(EFFECTS)


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 3)])
async def test_the_customer_is_shown_cost_and_undo_and_asked(
    commands: Commands, embedded_world: WorldUnderTest, asking: str, typed: str, code: int
) -> None:
    async with commands.in_terminal("chat", "--team", asking, "--yes", "-m", ORDER) as terminal:
        await terminal.shows("cost: 185.00 USD")
        await terminal.shows("undoing it would: Let the money go")
        await terminal.shows("Approve?")
        terminal.type(f"{typed}\n")
        assert await terminal.process.wait() == code

    assert kinds(await embedded_world.state()) == (sorted(EFFECTS) if typed == "y" else [])


async def test_an_approval_that_nobody_asked_for_is_one_line(commands: Commands) -> None:
    ran = await commands.run("approvals", "grant", "nobody/t1:3")

    assert ran.code == 1
    assert ran.err.startswith("error: there is no approval 'nobody/t1:3': 'countermand approvals list' shows")


async def test_json_tells_which_agent_chose_each_step(commands: Commands, embedded_world: WorldUnderTest) -> None:
    ran = await commands.run("chat", "--team", "four", "--yes", "-m", ORDER, "--json")

    agents = [step["agent"] for step in json.loads(ran.out)["saga"]["steps"]]
    assert ran.code == 0
    assert sorted(set(agents)) == sorted(agent.name for agent in FOUR_AGENTS.agents)
    assert kinds(await embedded_world.state()) == sorted(EFFECTS)


async def test_a_dry_run_shows_the_plan_and_does_nothing(commands: Commands, embedded_world: WorldUnderTest) -> None:
    ran = await commands.run("chat", "--dry-run", "-m", ORDER, "--json")

    plan = json.loads(ran.out)["plan"]
    assert ran.code == 0
    assert [line["tool"] for line in plan if line["point_of_no_return"]] == ["send_confirmation"]
    assert await embedded_world.ledger() == []


def test_a_team_is_shown_with_its_graph(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["agents", "show", "--team", "four", "--json"]) == 0

    shown = json.loads(capsys.readouterr().out)
    first = shown["agents"][0]
    assert set(first) == {"name", "tools", "handoffs", "model", "limits"}
    assert (first["name"], first["handoffs"]) == ("concierge", ["billing"])
    assert "concierge -.-> billing" in shown["graph"]


@pytest.mark.parametrize("command", ["agents show", "chat -m hello"])
def test_a_team_that_is_nowhere_is_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run([*command.split(), "--team", "nowhere.yaml"]) == 2

    told = capsys.readouterr().err
    assert told.startswith("error: --team: there is no team 'nowhere.yaml'")
    assert told.count("\n") == 1
