"""Teams of one's own, from a file: what fits together is taken, anything else is one clear line."""

from pathlib import Path

import pytest

from countermand.agents.graph import draw
from countermand.agents.team import FOUR_AGENTS, ORDER_TEAM
from countermand.agents.team_file import TeamInvalid, load_team
from countermand.tools.registry import load_tools

GOOD = """\
agents:
  - {name: front, instructions: Talk., tools: [quote_order], handoffs: [back]}
  - {name: back, instructions: Work., tools: [authorize_payment], limits: {authorize_payment: {count: 2}}}
limits: {day: {count: 10, money: {amount: 100000, currency: usd}}}
approvals: {authorize_payment: above 50000}
"""


def test_the_teams_that_come_along_hold_only_tools_that_there_are() -> None:
    tools = load_tools()

    assert (load_team("order", tools), load_team("four", tools)) == (ORDER_TEAM, FOUR_AGENTS)


def test_a_team_of_ones_own_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(GOOD)

    team = load_team(str(path), load_tools())

    assert [agent.name for agent in team.agents] == ["front", "back"]
    assert team.limits.day.count == 10
    assert team.approvals == {"authorize_payment": "above 50000"}


@pytest.mark.parametrize(
    ("good", "bad", "problem"),
    [
        ("agents:", "agents: [", "team {path}: while parsing"),
        ("tools: [quote_order]", "tools: [fly]", "front holds 'fly', and there is no such tool"),
        ("handoffs: [back]", "handoffs: [nobody]", "team {path}: the team: front hands over to nobody"),
        ("name: back", "name: front", "there are two agents of the name front"),
        ("name: front", "name: the front", "team {path}: agents.0.name: String should match pattern"),
        ("above 50000", "above all", "approvals.authorize_payment: String should match pattern"),
        ("{authorize_payment: above", "{send_confirmation: above", "approvals name send_confirmation, which nobody"),
        ("{count: 2}", "{count: -2}", "agents.1.limits.authorize_payment.count: Input should be greater than"),
        ("instructions: Talk.", "instruction: Talk.", "agents.0.instructions: Field required"),
    ],
)
def test_a_team_that_does_not_fit_is_refused_in_one_line(tmp_path: Path, good: str, bad: str, problem: str) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(GOOD.replace(good, bad, 1))

    with pytest.raises(TeamInvalid) as caught:
        load_team(str(path), load_tools())

    assert problem.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_team_that_is_nowhere_is_told_with_those_that_there_are() -> None:
    with pytest.raises(TeamInvalid, match="there is no team 'five': name order or four, or a YAML file"):
        load_team("five", load_tools())


def test_the_graph_shows_who_hands_over_to_whom() -> None:
    graph = draw(FOUR_AGENTS)

    for edge in ("__start__ --> concierge", "concierge -.-> billing", "fulfilment -.-> concierge"):
        assert edge in graph
