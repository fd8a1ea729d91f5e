"""What the providers' protocols have in common, as the local server sees it."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel, JsonValue

from countermand.saga.types import JsonObject

Body = dict[str, object]
"""What is sent, of JSON's types."""

INPUT_TOKENS, OUTPUT_TOKENS = 50, 10
"""What every answer is said to have used."""


class Request(BaseModel):
    """What the protocols share; the rest of a request is not looked at. ``stream`` is None where nothing is said."""

    model: str
    messages: list[JsonObject]
    tools: list[JsonObject] = []
    stream: bool | None = None
    system: JsonValue = None


@dataclass(frozen=True)
class Protocol:
    """One provider's.

    Attributes:
        path: Where requests go.
        streams: Whether an answer is streamed unless the request says otherwise.
        media_type: Of a streamed answer.
        read: The conversation of a request.
        whole: An answer as one body.
        events: An answer, streamed.
    """

    path: str
    streams: bool
    media_type: str
    read: Callable[[Request], list[BaseMessage]]
    whole: Callable[[Request, AIMessage], Body]
    events: Callable[[Request, AIMessage], Iterator[str]]


@dataclass(frozen=True)
class Call:
    """A call with its arguments as they are sent, JSON or not."""

    id: str
    name: str
    args: str


def calls_of(answer: AIMessage) -> list[Call]:
    """An answer's calls, the malformed ones last."""
    calls = [Call(call["id"] or "", call["name"], json.dumps(call["args"])) for call in answer.tool_calls]
    return calls + [Call(one["id"] or "", one["name"] or "", one["args"] or "") for one in answer.invalid_tool_calls]
