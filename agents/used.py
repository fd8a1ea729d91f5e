"""What a saga's models were used for, read from its history: it tells of running and of terminated sagas, too."""

from pydantic import BaseModel
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from countermand.agents.think import Thinker
from countermand.agents.usage import Usage


class _Asked(BaseModel):
    """Of ``ThinkRequest`` what matters here."""

    model: str


class _Answered(BaseModel):
    """Of ``Thought`` what matters here."""

    usage: Usage = Usage(requests=1)


async def usage_in(client: Client, saga_id: str) -> dict[str, Usage]:
    """Usage by model, of the newest run; empty where no model was asked, and where there is no such workflow."""
    try:
        history = await client.get_workflow_handle(saga_id).fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return {}
    asked: dict[int, str] = {}
    used: dict[str, Usage] = {}
    for event in history.events:
        begun = event.activity_task_scheduled_event_attributes
        ended = event.activity_task_completed_event_attributes
        if begun.activity_type.name == Thinker.think.__name__:
            (question,) = await client.data_converter.decode(begun.input.payloads, [_Asked])
            asked[event.event_id] = question.model
        elif ended.scheduled_event_id in asked:
            (answer,) = await client.data_converter.decode(ended.result.payloads, [_Answered])
            model = asked[ended.scheduled_event_id]
            used[model] = used.get(model, Usage()).plus(answer.usage)
    return used
