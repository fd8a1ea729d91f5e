"""The stub: a deterministic chat model that runs the order desk without a language model."""

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages import ToolCall as ModelCall
from typing_extensions import override

from countermand.agents.desk import read
from countermand.agents.offline import OfflineModel
from countermand.agents.personas import PERSONAS


class StubModel(OfflineModel):
    """Answers as the order desk would, in any agent's place; decides from the messages and the tools it is given."""

    persona: str = "order"

    @override
    def answer(self, messages: list[BaseMessage], *, agent: str | None) -> AIMessage:
        functions = [tool["function"] for tool in self.offered]
        offered = {str(one["name"]): str(one.get("description", "")) for one in functions}
        reply = PERSONAS[self.persona](read(messages, offered))
        # The place in the conversation makes ids unique without anything random.
        calls = [
            ModelCall(name=name, args=args, id=f"stub-{len(messages)}-{number}", type="tool_call")
            for number, (name, args) in enumerate(reply.calls, start=1)
        ]
        return AIMessage(content=reply.text, tool_calls=calls)
