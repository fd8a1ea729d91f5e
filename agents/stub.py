"""The stub: a deterministic chat model that runs the order desk without a language model."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages import ToolCall as ModelCall
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from countermand.agents.desk import read
from countermand.agents.personas import PERSONAS


class StubModel(BaseChatModel):
    """Answers as the order desk would, in any agent's place; decides from the messages and the tools it is given."""

    persona: str = "order"
    offered: Mapping[str, str] = {}

    @property
    @override
    def _llm_type(self) -> str:
        return "countermand-stub"

    @override
    def bind_tools(
        self, tools: Sequence[dict[str, Any] | type | Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[Any, AIMessage]:
        given = [convert_to_openai_tool(tool)["function"] for tool in tools]
        offered = {str(tool["name"]): str(tool.get("description", "")) for tool in given}
        return self.model_copy(update={"offered": offered})

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = PERSONAS[self.persona](read(messages, self.offered))
        # The place in the conversation makes ids unique without anything random.
        calls = [
            ModelCall(name=name, args=args, id=f"stub-{len(messages)}-{number}", type="tool_call")
            for number, (name, args) in enumerate(reply.calls, start=1)
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=reply.text, tool_calls=calls))])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        message = self._generate(messages).generations[0].message
        for piece in re.findall(r"\s*\S+\s*", message.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        chunks = [
            tool_call_chunk(name=call["name"], args=json.dumps(call["args"]), id=call["id"], index=number)
            for number, call in enumerate(calls)
        ]
        if chunks:
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=chunks))
