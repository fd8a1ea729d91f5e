"""Ollama's chat. Source: https://github.com/ollama/ollama/blob/main/docs/api.md ."""

import json
from collections import deque
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage, convert_to_messages
from pydantic import BaseModel

from countermand.agents.messages import pieces
from countermand.saga.types import JsonObject
from countermand.testing.providers.protocol import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Body,
    Protocol,
    Request,
    calls_of,
)


class _Function(BaseModel):
    name: str
    arguments: JsonObject


class _Call(BaseModel):
    function: _Function


class _Message(BaseModel):
    """A message of any role. Calls have no ids: their answers follow in their order."""

    role: str
    content: str = ""
    tool_calls: list[_Call] = []


def _read(request: Request) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    waiting: deque[str] = deque()
    for place, message in enumerate(map(_Message.model_validate, request.messages)):
        if message.role == "tool":
            messages.append(ToolMessage(message.content, tool_call_id=waiting.popleft()))
            continue
        if message.role != "assistant":
            messages += convert_to_messages([{"role": message.role, "content": message.content}])
            continue
        calls = [
            ToolCall(name=call.function.name, args=call.function.arguments, id=f"{place}-{no}", type="tool_call")
            for no, call in enumerate(message.tool_calls)
        ]
        waiting.extend(call["id"] or "" for call in calls)
        messages.append(AIMessage(message.content, tool_calls=calls))
    return messages


def _whole(request: Request, answer: AIMessage) -> Body:
    message: Body = {"role": "assistant", "content": answer.text, "tool_calls": _calls(answer)}
    return {**_envelope(request, message), **_ENDED}


def _events(request: Request, answer: AIMessage) -> Iterator[str]:
    for piece in pieces(answer.text):
        yield _line(_envelope(request, {"role": "assistant", "content": piece}))
    if calls := _calls(answer):
        yield _line(_envelope(request, {"role": "assistant", "content": "", "tool_calls": calls}))
    yield _line({**_envelope(request, {"role": "assistant", "content": ""}), **_ENDED})


def _calls(answer: AIMessage) -> list[Body]:
    return [{"function": {"name": call.name, "arguments": json.loads(call.args)}} for call in calls_of(answer)]


def _envelope(request: Request, message: Body) -> Body:
    return {"model": request.model, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False}


_ENDED: Body = {"done": True, "done_reason": "stop", "prompt_eval_count": INPUT_TOKENS, "eval_count": OUTPUT_TOKENS}


def _line(value: Body) -> str:
    return json.dumps(value) + "\n"


OLLAMA = Protocol(
    path="/api/chat", streams=True, media_type="application/x-ndjson", read=_read, whole=_whole, events=_events
)
