"""The server: reads a request in its provider's protocol, and has a chat model of ours answer it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response, StreamingResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from typing_extensions import override

from countermand.agents.stub import StubModel
from countermand.testing.providers.anthropic import ANTHROPIC
from countermand.testing.providers.ollama import OLLAMA
from countermand.testing.providers.openai import OPENAI
from countermand.testing.providers.protocol import Protocol, Request
from countermand.tools.world.server import listen


@dataclass
class Provider:
    """A running server.

    Attributes:
        url: Its base URL.
        asked: The requests, as ``<path> <model>``, with `` stream`` where the answer was streamed.
        failures: HTTP statuses that the next requests are answered with, instead of an answer.
        complaint: What those answers say.
        goes_on: While it is cleared, no answer gets beyond its first half.
    """

    url: str
    asked: list[str] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    complaint: str = "told to fail"
    goes_on: threading.Event = field(default_factory=threading.Event)


class _Server(uvicorn.Server):
    @contextmanager
    @override
    def capture_signals(self) -> Generator[None]:
        # uvicorn's own would take a test's Ctrl-C for itself.
        yield


@asynccontextmanager
async def serve_provider(model: BaseChatModel | None = None) -> AsyncGenerator[Provider]:
    """Serve all protocols in this process, on a free port.

    Args:
        model: Who answers; the stub if None.
    """
    with listen("127.0.0.1", 0) as listener:
        provider = Provider(f"http://127.0.0.1:{listener.getsockname()[1]}")
        provider.goes_on.set()
        app = _app(provider, model or StubModel())
        server = _Server(uvicorn.Config(app, log_level="warning", access_log=False, ws="none"))
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield provider
        finally:
            provider.goes_on.set()
            server.should_exit = True
            await serving


def _app(provider: Provider, model: BaseChatModel) -> FastAPI:
    app = FastAPI()
    for protocol in (OPENAI, ANTHROPIC, OLLAMA):
        app.post(protocol.path)(_answering(protocol, provider, model))
    return app


def _answering(protocol: Protocol, provider: Provider, model: BaseChatModel) -> Callable[[Request], Response]:
    # An ordinary function, which FastAPI runs in a thread: the model may be one that knows no other way.
    def answer(request: Request) -> Response:
        streams = protocol.streams if request.stream is None else request.stream
        provider.asked.append(f"{protocol.path} {request.model}" + (" stream" if streams else ""))
        if provider.failures:
            return JSONResponse({"error": {"message": provider.complaint}}, status_code=provider.failures.pop(0))
        reply: AIMessage = model.bind_tools(list(request.tools)).invoke(_named(protocol.read(request)))
        if streams:
            events = _halting(provider, [*protocol.events(request, reply)])
            return StreamingResponse(events, media_type=protocol.media_type)
        provider.goes_on.wait()
        return JSONResponse(protocol.whole(request, reply))

    return answer


def _halting(provider: Provider, events: list[str]) -> Iterator[str]:
    yield from events[: len(events) // 2]
    provider.goes_on.wait()
    yield from events[len(events) // 2 :]


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
