"""OpenAI's chat completions. Source: https://platform.openai.com/docs/api-reference/chat ."""

import json
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages

from countermand.agents.messages import pieces
from countermand.testing.providers.protocol import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Body,
    Protocol,
    Request,
    calls_of,
)

_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


def _read(request: Request) -> list[BaseMessage]:
    return convert_to_messages(request.messages)


def _whole(request: Request, answer: AIMessage) -> Body:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.args}}
        for call in calls_of(answer)
    ]
    message = {"role": "assistant", "content": answer.text, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {**_envelope(request, "chat.completion"), "choices": [choice], "usage": _USAGE}


def _events(request: Request, answer: AIMessage) -> Iterator[str]:
    calls = calls_of(answer)
    yield _piece(request, {"role": "assistant", "content": ""})
    for piece in pieces(answer.text):
        yield _piece(request, {"content": piece})
    for index, call in enumerate(calls):
        named = {"name": call.name, "arguments": ""}
        yield _piece(request, {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": named}]})
        yield _piece(request, {"tool_calls": [{"index": index, "function": {"arguments": call.args}}]})
    yield _piece(request, {}, "tool_calls" if calls else "stop")
    yield _data({**_envelope(request, "chat.completion.chunk"), "choices": [], "usage": _USAGE})
    yield "data: [DONE]\n\n"


def _piece(request: Request, delta: Body, reason: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return _data({**_envelope(request, "chat.completion.chunk"), "choices": [choice]})


def _envelope(request: Request, kind: str) -> Body:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": request.model}


def _data(value: Body) -> str:
    return f"data: {json.dumps(value)}\n\n"


OPENAI = Protocol(
    path="/v1/chat/completions",
    streams=False,
    media_type="text/event-stream",
    read=_read,
    whole=_whole,
    events=_events,
)
