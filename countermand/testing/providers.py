"""A local server that speaks as model providers do, so that the real clients are tested: the stub answers behind it.

It knows OpenAI's chat completions and Anthropic's messages, with tool calls, whole and streamed.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response, StreamingResponse
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
    convert_to_messages,
)
from pydantic import BaseModel, JsonValue
from typing_extensions import override

from countermand.agents.stub import StubModel
from countermand.tools.world.server import listen

Object = dict[str, JsonValue]


@dataclass
class Provider:
    """A running server: its base URL, and what was asked, as ``<path> <model>`` with `` stream`` if it was streamed."""

    url: str
    asked: list[str] = field(default_factory=list)


class _Request(BaseModel):
    """What both protocols share; the rest of a request is not looked at."""

    model: str
    messages: list[Object]
    tools: list[Object] = []
    stream: bool = False
    system: JsonValue = None


class _Server(uvicorn.Server):
    @contextmanager
    @override
    def capture_signals(self) -> Generator[None]:
        # uvicorn's own would take a test's Ctrl-C for itself.
        yield


@asynccontextmanager
async def serve_provider() -> AsyncGenerator[Provider]:
    """Serve both protocols in this process, on a free port."""
    with listen("127.0.0.1", 0) as listener:
        provider = Provider(f"http://127.0.0.1:{listener.getsockname()[1]}")
        server = _Server(uvicorn.Config(_app(provider), log_level="warning", access_log=False, ws="none"))
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield provider
        finally:
            server.should_exit = True
            await serving


def _app(provider: Provider) -> FastAPI:
    app = FastAPI()

    @app.post("/v1/chat/completions")
    def completions(request: _Request) -> Response:
        _note(provider, "/v1/chat/completions", request)
        answer = _think(_named(convert_to_messages(request.messages)), request.tools)
        if request.stream:
            return StreamingResponse(_openai_events(request, answer), media_type="text/event-stream")
        return JSONResponse(_openai(request, answer))

    @app.post("/v1/messages")
    def messages(request: _Request) -> Response:
        _note(provider, "/v1/messages", request)
        answer = _think(_named(_from_anthropic(request)), request.tools)
        if request.stream:
            return StreamingResponse(_anthropic_events(request, answer), media_type="text/event-stream")
        return JSONResponse(_anthropic(request, answer))

    _ = completions, messages  # FastAPI holds them
    return app


def _note(provider: Provider, path: str, request: _Request) -> None:
    provider.asked.append(f"{path} {request.model}" + (" stream" if request.stream else ""))


def _think(messages: list[BaseMessage], tools: list[Object]) -> AIMessage:
    return StubModel().bind_tools(tools).invoke(messages)


def _named(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Tool messages with the names and the status that the protocols leave out."""
    names: dict[str, str] = {}
    named: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, AIMessage):
            names |= {call["id"] or "": call["name"] for call in message.tool_calls}
        if isinstance(message, ToolMessage):
            status = "success" if message.text.startswith("{") else "error"
            name, call_id = names[message.tool_call_id], message.tool_call_id
            named.append(ToolMessage(message.text, name=name, tool_call_id=call_id, status=status))
        else:
            named.append(message)
    return named


# -- OpenAI. Source: https://platform.openai.com/docs/api-reference/chat ---------------------------------------------


def _openai(request: _Request, answer: AIMessage) -> Object:
    calls: list[JsonValue] = [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
        }
        for call in answer.tool_calls
    ]
    message: Object = {"role": "assistant", "content": answer.text} | ({"tool_calls": calls} if calls else {})
    reason = "tool_calls" if calls else "stop"
    return _chunk(request, "chat.completion") | {
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60},
    }


def _openai_events(request: _Request, answer: AIMessage) -> Iterator[str]:
    deltas: list[Object] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in answer.text.splitlines(keepends=True)]
    for index, call in enumerate(answer.tool_calls):
        named: Object = {"name": call["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": named}]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": json.dumps(call["args"])}}]})
    for delta in deltas:
        yield _data(_openai_piece(request, delta, None))
    yield _data(_openai_piece(request, {}, "tool_calls" if answer.tool_calls else "stop"))
    yield "data: [DONE]\n\n"


def _openai_piece(request: _Request, delta: Object, reason: str | None) -> Object:
    choices: list[JsonValue] = [{"index": 0, "delta": delta, "finish_reason": reason}]
    return _chunk(request, "chat.completion.chunk") | {"choices": choices}


def _chunk(request: _Request, kind: str) -> Object:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": request.model}


# -- Anthropic. Source: https://docs.anthropic.com/en/api/messages ---------------------------------------------------


class _Block(BaseModel):
    """A content block of any kind."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Object = {}
    tool_use_id: str = ""
    content: JsonValue = None


def _from_anthropic(request: _Request) -> list[BaseMessage]:
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


def _anthropic(request: _Request, answer: AIMessage) -> Object:
    return _envelope(request) | {"content": _content(answer), "stop_reason": _stop_reason(answer)}


def _anthropic_events(request: _Request, answer: AIMessage) -> Iterator[str]:
    yield _event({"type": "message_start", "message": _envelope(request)})
    for index, block in enumerate(_content(answer)):
        if block["type"] == "text":
            start, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event({"type": "content_block_start", "index": index, "content_block": start})
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    ended: Object = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 10}})
    yield _event({"type": "message_stop"})


def _content(answer: AIMessage) -> list[Object]:
    blocks: list[Object] = [{"type": "text", "text": answer.text}] if answer.text else []
    return blocks + [_tool_use(call) for call in answer.tool_calls]


def _tool_use(call: ToolCall) -> Object:
    return {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}


def _stop_reason(answer: AIMessage) -> str:
    return "tool_use" if answer.tool_calls else "end_turn"


def _envelope(request: _Request) -> Object:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 50, "output_tokens": 10},
    }


def _event(value: Object) -> str:
    return f"event: {value['type']}\n{_data(value)}"


def _data(value: Object) -> str:
    return f"data: {json.dumps(value)}\n\n"
