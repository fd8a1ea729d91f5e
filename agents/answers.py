"""A model's answer in one form, whoever gave it: bounded, with unique call ids, and with what is wrong in it named."""

import json
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages import ToolCall as ModelCall
from pydantic import Field, TypeAdapter

from countermand.agents.messages import WithoutDefaults
from countermand.agents.usage import Price, Usage, usage_of
from countermand.saga.types import Frozen

MAX_TEXT = 20_000
"""Characters of a model's text that are kept, a longer answer is cut and says so; and of a call's arguments."""

MAX_NAME = 128
"""Characters of a tool's name that are kept."""

MAX_CALLS_KEPT = 128
"""Calls of one message that are kept; the guard runs none of so many, and each is answered."""


class Thought(Frozen):
    """The model's answer, the digest of all that it read, and what it used.

    ``malformed`` names the calls whose arguments were not even JSON, by call id.
    """

    message: Annotated[AIMessage, WithoutDefaults]
    prompt: str
    malformed: Annotated[dict[str, str], Field(default_factory=dict)]
    usage: Usage = Usage(requests=1)


def normalised(answer: AIMessage, *, prompt: str, turn_length: int, price: Price | None) -> Thought:
    """A model's answer as the turn takes it.

    Args:
        answer: As the model gave it; or its pieces, put together.
        prompt: The digest of what it read.
        turn_length: The turn's messages so far. It makes ids unique in the conversation without anything random.
        price: The model's, if it is known.
    """
    malformed: dict[str, str] = {}
    calls: list[ModelCall] = []
    for number, (name, args, call_id, error) in enumerate(_given(answer)[:MAX_CALLS_KEPT], start=1):
        unique = call_id if call_id and call_id not in {call["id"] for call in calls} else f"c{turn_length}-{number}"
        too_long = len(json.dumps(args)) > MAX_TEXT
        calls.append(ModelCall(name=name[:MAX_NAME], args={} if too_long else args, id=unique, type="tool_call"))
        if too_long:
            malformed[unique] = f"longer than {MAX_TEXT:,} characters"
        elif error:
            malformed[unique] = error[:500]
    text = answer.text
    if len(text) > MAX_TEXT:
        text = text[:MAX_TEXT] + " … (cut: the answer was too long)"
    kept = AIMessage(content=text, tool_calls=calls)
    return Thought(message=kept, prompt=prompt, malformed=malformed, usage=usage_of(answer, price))


_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

_Given = tuple[str, dict[str, Any], str | None, str]
"""A call's name, arguments and id, and what is wrong with its arguments."""


def _given(answer: AIMessage) -> list[_Given]:
    if isinstance(answer, AIMessageChunk):
        # langchain mends arguments that were cut off in a stream: '{"plan": "sm' would become an order.
        return [_read(one["name"], one["args"], one["id"]) for one in answer.tool_call_chunks]
    given: list[_Given] = [(call["name"], call["args"], call["id"], "") for call in answer.tool_calls]
    wrong = answer.invalid_tool_calls
    return given + [(one["name"] or "", {}, one["id"], one["error"] or "not JSON") for one in wrong]


def _read(name: str | None, text: str | None, call_id: str | None) -> _Given:
    try:
        return name or "", _OBJECT.validate_python(json.loads(text or "{}")), call_id, ""
    except ValueError as error:
        return name or "", {}, call_id, " ".join(str(error).split())
