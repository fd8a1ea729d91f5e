"""Conversations as langchain messages, and what keeps them acceptable to the next model call."""

import json
import re
from collections.abc import Sequence
from typing import Annotated

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from pydantic import BaseModel, JsonValue, PlainSerializer, TypeAdapter, ValidationError

from countermand.saga.types import JsonObject


def _without_defaults(message: AnyMessage) -> JsonObject:
    return {"type": message.type, **message.model_dump(mode="json", exclude_defaults=True)}


WithoutDefaults = PlainSerializer(_without_defaults)
"""Leaves out the fields of a message that have their defaults: histories and caches hold many messages."""

Message = Annotated[AnyMessage, WithoutDefaults]

MAX_ANSWER = 20_000
"""Characters of what a call came to that a model is told: a turn's messages travel with every model call."""

Messages: TypeAdapter[list[AnyMessage]] = TypeAdapter(list[Message])


def as_json(messages: Sequence[AnyMessage]) -> tuple[JsonObject, ...]:
    """A conversation in JSON's types, as the context cache keeps it."""
    return tuple(Messages.dump_python(list(messages), mode="json"))


def from_json(messages: Sequence[JsonObject]) -> list[AnyMessage]:
    """A conversation from JSON's types."""
    return Messages.validate_python(list(messages))


def pieces(text: str) -> list[str]:
    """A text as it is streamed, word by word."""
    return re.findall(r"\s*\S+\s*", text)


def unanswered(messages: Sequence[AnyMessage]) -> list[ToolCall]:
    """Tool calls that no tool message answers; model providers refuse a conversation that has one."""
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    calls = [call for message in messages if isinstance(message, AIMessage) for call in message.tool_calls]
    return [call for call in calls if call["id"] not in answered]


def refusal(call: ToolCall, reason: str) -> ToolMessage:
    """Tell the model that a call had no effect, and why."""
    return ToolMessage(content=reason[:MAX_ANSWER], tool_call_id=call["id"] or "", name=call["name"], status="error")


def answer(call: ToolCall, result: BaseModel) -> ToolMessage:
    """Tell the model what a call came to; the ledger has it whole."""
    return ToolMessage(content=_in_bounds(result), tool_call_id=call["id"] or "", name=call["name"])


def _in_bounds(result: BaseModel) -> str:
    """A result as JSON, its texts cut where it would be too long."""
    told = result.model_dump_json()
    longest = MAX_ANSWER
    while len(told) > MAX_ANSWER and longest > 1:
        longest //= 2
        told = json.dumps(_cut(result.model_dump(mode="json"), longest), ensure_ascii=False)
    return told[:MAX_ANSWER]


def _cut(value: JsonValue, longest: int) -> JsonValue:
    match value:
        case str() if len(value) > longest:
            return f"{value[:longest]} ... (cut: it had {len(value):,} characters)"
        case list():
            return [_cut(one, longest) for one in value]
        case dict():
            return {name: _cut(one, longest) for name, one in value.items()}
        case _:
            return value


def complaint(error: ValidationError) -> str:
    """What is wrong with a call's arguments, a line a field, in words for the model."""
    lines = [f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors()[:8]]
    return "invalid arguments, nothing was done: " + "; ".join(lines)
