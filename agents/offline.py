"""What models without a provider share: they answer from the conversation and the tools that they are given."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from countermand.agents.messages import pieces

AGENT = "agent"
"""The run's metadata that names the agent who asks."""


class OfflineModel(BaseChatModel):
    """A chat model without a provider. ``offered`` are its tools, in OpenAI's form."""

    offered: tuple[dict[str, Any], ...] = ()

    @property
    @override
    def _llm_type(self) -> str:
        return type(self).__name__

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        return self.model_copy(update={"offered": tuple(convert_to_openai_tool(tool) for tool in tools)})

    @abstractmethod
    def answer(self, messages: list[BaseMessage], *, agent: str | None) -> AIMessage:
        """What follows on a conversation; ``agent`` is who asks, if that is known."""

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answer = self.answer(messages, agent=_agent(run_manager))
        return ChatResult(generations=[ChatGeneration(message=answer)])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self.answer(messages, agent=_agent(run_manager))
        for piece in pieces(answer.text) or [answer.text]:
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        calls = [(call["name"], json.dumps(call["args"]), call["id"]) for call in answer.tool_calls]
        calls += [(call["name"] or "", call["args"] or "", call["id"]) for call in answer.invalid_tool_calls]
        chunks = [tool_call_chunk(name=call[0], args=call[1], id=call[2], index=no) for no, call in enumerate(calls)]
        if chunks:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=chunks))


def _agent(run: CallbackManagerForLLMRun | None) -> str | None:
    return run.metadata.get(AGENT) if run else None
