"""What a session's context holds: the agents' instructions, then the conversation's newest turns."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from countermand.agents.messages import Messages
from countermand.agents.team import REMINDER, Agent, Team
from countermand.saga.journal import safe_digest

MAX_CONVERSATION_BYTES = 300_000
"""How much of the conversation a model is shown; the oldest whole turns go first. A payload holds 2 MB."""


def opening(team: Team) -> list[AnyMessage]:
    """The instructions of all agents, which the context begins with."""
    return [SystemMessage(agent.instructions) for agent in team.agents]


def by_reference(team: Team) -> Team:
    """The team with its instructions by their digests: a session's turns find the texts in its context."""
    agents = [agent.model_copy(update={"instructions": safe_digest(agent.instructions)}) for agent in team.agents]
    return team.model_copy(update={"agents": tuple(agents)})


def instructions_of(agent: Agent, context: Sequence[AnyMessage]) -> str:
    """The text of an agent's instructions, which a context holds if they are by reference."""
    texts = [message.text for message in context if isinstance(message, SystemMessage)]
    return {safe_digest(text): text for text in texts}.get(agent.instructions, agent.instructions)


def bounded(context: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A context without the oldest whole turns, where its turns are too long together; the last turn stays."""
    begins = [
        place for place, message in enumerate(context) if isinstance(message, HumanMessage) and message.text != REMINDER
    ]
    sizes = [len(Messages.dump_json([message])) for message in context]
    kept = [place for place in begins if sum(sizes[place:]) <= MAX_CONVERSATION_BYTES] or begins[-1:]
    return [*context[: begins[0]], *context[kept[0] :]] if kept else [*context]
