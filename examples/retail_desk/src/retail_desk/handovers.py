"""What the desk can't do itself."""

from pydantic import Field

from countermand.saga import ToolCall
from countermand.saga.types import Frozen
from countermand.tools.tool import tool
from retail_desk.journal import found_by_key, restore_rows, write_once
from retail_desk.models import Handover


class TransferToHumanAgents(Frozen):
    """Leave the conversation to a person."""

    summary: str = Field(min_length=1, max_length=2000, description="What the customer wants, and what was tried.")


@tool(effect="compensable", compensate=restore_rows, probe=found_by_key(Handover))
async def transfer_to_human_agents(call: ToolCall, args: TransferToHumanAgents) -> Handover:
    """Put the conversation into the queue of the shop's people."""
    handover = Handover(handover_id=call.key, summary=args.summary)
    return await write_once(call, args, Handover, lambda desk: desk.save(handover))
