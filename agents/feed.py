"""What a session's feed carries: steps as they run and as they are undone, and the model's text as it comes."""

from countermand.cache.feed import Feed
from countermand.saga.activities import Phase, Watcher
from countermand.saga.types import JsonObject, ToolCall

STEP = "step"
TEXT = "text"
"""The kinds of feed events."""


def step_watcher(feed: Feed) -> Watcher:
    """Tells the feed of a session of its steps; calls without a session have no feed."""

    async def watch(call: ToolCall, phase: Phase) -> None:
        if call.session is not None:
            undo = call.key != call.step_key
            step: JsonObject = {
                "saga": call.saga_id,
                "step": call.step_no,
                "undo": undo,
                "phase": phase,
                "agent": call.agent,
            }
            await feed.append(call.session, STEP, step)

    return watch
