"""The tools that agents hold beside those of their packs: they act on the saga itself, or hand over to a colleague."""

from collections.abc import Mapping

from pydantic import BaseModel, Field

from countermand.agents.team import Agent, Team
from countermand.saga.types import Frozen

TRANSFER = "transfer_to_"
"""``transfer_to_<agent>`` hands the conversation over."""


class Commit(Frozen):
    """Make everything done in this transaction final. Call it once, when the order is complete."""


class Abort(Frozen):
    """Undo everything done in this transaction, in reverse order."""

    reason: str = Field(max_length=500, description="Why, in words for the customer.")


class UndoTo(Frozen):
    """Undo the steps after the given one and go on from there in the same transaction."""

    step_no: int = Field(ge=0, description="The last step to keep; 0 keeps none.")


class Transfer(Frozen):
    """Hand the conversation over; what was done stays in the same transaction."""

    note: str = Field(default="", max_length=500, description="What your colleague is to do.")


class HandedOver(Frozen):
    """Whose turn it is now."""

    agent: str


BUILTINS: Mapping[str, type[BaseModel]] = {"commit": Commit, "abort": Abort, "undo_to": UndoTo}
"""What every agent holds."""


def transfers(agent: Agent, team: Team) -> dict[str, str]:
    """The tools that hand over from this agent, by name, as the model reads of them."""
    return {f"{TRANSFER}{name}": _describe(team.agent(name)) for name in agent.handoffs}


def builtin_args(name: str, agent: Agent) -> type[BaseModel] | None:
    """The arguments of a built-in tool that this agent holds, or None."""
    if name.removeprefix(TRANSFER) in agent.handoffs and name.startswith(TRANSFER):
        return Transfer
    return BUILTINS.get(name)


def _describe(colleague: Agent) -> str:
    holds = ", ".join(colleague.tools) or "no tools"
    return f"Hand the conversation over to {colleague.name}, who holds: {holds}. The transaction goes on."
