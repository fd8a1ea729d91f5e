"""Anthropic's messages. Source: https://docs.anthropic.com/en/api/messages ."""

import json
from collections.abc import Iterator

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel, JsonValue

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

_USAGE = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}


class _Block(BaseModel):
    """A content block of any kind."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: JsonObject = {}
    tool_use_id: str = ""
    content: JsonValue = None


def _read(request: Request) -> list[BaseMessage]:
    messages: list[BaseMessage] = [SystemMessage(_text(request.system))] if request.system else []
    for message in request.messages:
        blocks = _blocks(message["content"])
        if message["role"] == "assistant":
            used = [block for block in blocks if block.type == "tool_use"]
            calls = [{"name": block.name, "args": block.input, "id": block.id} for block in used]
            messages.append(AIMessage("".join(block.text for block in blocks), tool_calls=calls))
            continue
        for block in blocks:
            if block.type == "tool_result":
                messages.append(ToolMessage(_text(block.content), tool_call_id=block.tool_use_id))
            else:
                messages.append(HumanMessage(block.text))
    return messages


def _blocks(content: JsonValue) -> list[_Block]:
    if isinstance(content, list):
        return [_Block.model_validate(one) for one in content]
    return [_Block(type="text", text=str(content))]


def _text(content: JsonValue) -> str:
    return "".join(block.text for block in _blocks(content))


def _whole(request: Request, answer: AIMessage) -> Body:
    text = [{"type": "text", "text": answer.text}] if answer.text else []
    used = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.args)}
        for call in calls_of(answer)
    ]
    return {**_envelope(request), "content": [*text, *used], "stop_reason": _stop_reason(answer)}


def _events(request: Request, answer: AIMessage) -> Iterator[str]:
    yield _event("message_start", message=_envelope(request))
    for index, (start, deltas) in enumerate(_blocks_of(answer)):
        yield _event("content_block_start", index=index, content_block=start)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=_USAGE)
    yield _event("message_stop")


def _blocks_of(answer: AIMessage) -> Iterator[tuple[Body, list[Body]]]:
    if answer.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": one} for one in pieces(answer.text)]
    for call in calls_of(answer):
        nothing: Body = {}
        used: Body = {"type": "tool_use", "id": call.id, "name": call.name, "input": nothing}
        yield used, [{"type": "input_json_delta", "partial_json": call.args}]


def _stop_reason(answer: AIMessage) -> str:
    return "tool_use" if calls_of(answer) else "end_turn"


def _envelope(request: Request) -> Body:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }


def _event(kind: str, **value: object) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **value})}\n\n"


ANTHROPIC = Protocol(
    path="/v1/messages",
    streams=False,
    media_type="text/event-stream",
    read=_read,
    whole=_whole,
    events=_events,
)
