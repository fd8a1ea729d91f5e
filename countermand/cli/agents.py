"""``countermand agents``: who is in the team, who holds what, who hands over to whom."""

from typing import Annotated

from cyclopts import App, Parameter
from pydantic import JsonValue
from rich.table import Table

from countermand.agents.graph import draw
from countermand.agents.team import Agent, Team
from countermand.agents.team_file import TeamInvalid, load_team
from countermand.cli.console import COMMITTED, USAGE, CommandError, say_json, stdout
from countermand.saga.types import JsonObject, Limit
from countermand.settings import Settings
from countermand.tools.registry import load_tools

agents = App(name="agents")
TeamChoice = Annotated[str, Parameter(name="--team", help="order, four, or a YAML file of one's own.")]


def team_of(chosen: str, settings: Settings) -> Team:
    """The team that a command's ``--team`` names.

    Raises:
        CommandError: There is none; in one line.
    """
    try:
        return load_team(chosen, load_tools(settings.tools))
    except TeamInvalid as error:
        raise CommandError(f"--team: {error}", USAGE) from error


@agents.command
def show(
    *, team: TeamChoice = "order", json_output: Annotated[bool, Parameter(name="--json", help="Print JSON.")] = False
) -> int:
    """Show a team and its graph in mermaid. Example: countermand agents show --team four."""
    chosen = team_of(team, Settings())
    if json_output:
        wanted = {"name", "tools", "handoffs", "model", "limits"}
        shown: list[JsonValue] = [agent.model_dump(mode="json", include=wanted) for agent in chosen.agents]
        rules: JsonObject = chosen.model_dump(mode="json", exclude={"agents"})
        say_json({"agents": shown, **rules, "graph": draw(chosen)})
        return COMMITTED
    table = Table("agent", "holds", "hands over to", "model", "limits")
    for agent in chosen.agents:
        table.add_row(*_row(agent))
    console = stdout()
    console.print(table)
    for whose, limit in (("order", chosen.limits.saga), ("session", chosen.limits.session), ("day", chosen.limits.day)):
        if limit != Limit():
            console.print(f"limit of the {whose}: {_shown(limit)}")
    for tool, policy in chosen.approvals.items():
        console.print(f"approval of {tool}: {policy}")
    console.print(draw(chosen), markup=False)
    return COMMITTED


def _row(agent: Agent) -> list[str]:
    limits = "\n".join(f"{tool}: {_shown(limit)}" for tool, limit in agent.limits.items())
    return [agent.name, "\n".join(agent.tools), "\n".join(agent.handoffs), agent.model or "the turn's", limits]


def _shown(limit: Limit) -> str:
    count = [] if limit.count is None else [f"{limit.count} times"]
    money = [] if limit.money is None else [str(limit.money)]
    return ", ".join(count + money)
