"""What one turn starts with. It is the first thing in its history, where the turn's activities find it, too."""

from typing import Annotated

from pydantic import Field
from temporalio import activity

from countermand.agents.guard import Spent
from countermand.agents.team import Team
from countermand.cache.types import ContextRef
from countermand.saga import SagaOptions
from countermand.saga.sensitive import Masked
from countermand.saga.types import ID_PATTERN, Frozen

ModelQueue = Annotated[
    str | None, Field(description="The task queue that models are asked from; the workflow's own if None.")
]
"""Travels in the start input. A queue of its own has a rate limit, and no tool call waits behind a model's answer."""


class TurnInput(Frozen):
    """What one turn is: the customer's words, and what they follow on.

    ``spent`` and ``tainted`` are what the session's earlier turns ordered, and whether text that others wrote was read
    in them.
    """

    text: Masked
    model: str
    team: Team
    session: str | None = None
    tenant: str = Field(default="default", pattern=ID_PATTERN)
    turn: int = Field(default=1, ge=1)
    context: ContextRef | None = None
    confirmed: bool = False
    dry_run: bool = Field(default=False, description="Effects are only imagined; the result has them as a plan.")
    spent: Spent = Spent()
    tainted: bool = False
    model_queue: ModelQueue = None
    options: SagaOptions = SagaOptions()


async def this_turn() -> TurnInput:
    """What the turn started with, asked in one of its activities: so no history says it once for every activity."""
    client, info = activity.client(), activity.info()
    turn = client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
    events = turn.fetch_history_events(page_size=1)
    started = await anext(events)
    given = started.workflow_execution_started_event_attributes.input.payloads
    (request,) = await client.data_converter.decode(given, [TurnInput])
    return request
