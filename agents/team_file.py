"""Teams by name, or from a YAML file of one's own; read by the client, since workflows read no files."""

from collections.abc import Collection, Mapping
from pathlib import Path

import yaml
from pydantic import ValidationError

from countermand.agents.team import FOUR_AGENTS, ORDER_TEAM, Team
from countermand.saga.errors import CountermandError

TEAMS: Mapping[str, Team] = {"order": ORDER_TEAM, "four": FOUR_AGENTS}
"""The teams that come with Countermand: one agent that holds everything, and four that hand over."""


class TeamInvalid(CountermandError):
    """There is no such team, or its file says something wrong; the message names the field and the reason."""


def load_team(chosen: str, tools: Collection[str]) -> Team:
    """A team by its name, or from a file.

    Args:
        chosen: A name of ``TEAMS``, or a path to a YAML file with the fields of ``Team``.
        tools: The tools that there are.

    Raises:
        TeamInvalid: In one line.
    """
    team = TEAMS.get(chosen) or _read(Path(chosen))
    for agent in team.agents:
        if unknown := set(agent.tools) - set(tools):
            raise TeamInvalid(
                f"team {chosen}: {agent.name} holds {min(unknown)!r}, and there is no such tool: there are "
                f"{', '.join(sorted(tools))}"
            )
    return team


def _read(path: Path) -> Team:
    if not path.is_file():
        raise TeamInvalid(f"there is no team {str(path)!r}: name {' or '.join(TEAMS)}, or a YAML file")
    try:
        return Team.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise TeamInvalid(f"team {path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the team"
        raise TeamInvalid(f"team {path}: {where}: {first['msg'].removeprefix('Value error, ')}") from error
