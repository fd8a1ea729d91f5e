"""How ``think`` comes by the conversation that a turn follows on."""

from langchain_core.messages import AnyMessage
from temporalio import activity

from countermand.agents.session import ChatSession
from countermand.cache.types import ContextRef


async def read_context(ref: ContextRef) -> list[AnyMessage]:
    """The conversation's messages, from the session's own workflow."""
    session = activity.client().get_workflow_handle_for(ChatSession.run, ref.session)
    conversation = await session.query(ChatSession.context)
    return conversation.messages
