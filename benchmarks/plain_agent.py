"""The order desk's graph with temporalio-langgraph alone: the same model, the same calls to the world, and no saga."""

import json
import operator
from datetime import timedelta
from typing import Annotated, Literal, TypedDict

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.langgraph import graph

with workflow.unsafe.imports_passed_through():
    from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_core.messages import ToolCall as ModelCall
    from langgraph.graph import START, StateGraph  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    from pydantic import BaseModel

    from countermand.agents.messages import Message
    from countermand.agents.models import resolve_model
    from countermand.agents.team import CONFIRMED, ORDER_TEAM
    from countermand.agents.think import schemas
    from countermand.saga.activities import HEARTBEAT_TIMEOUT, heartbeats
    from countermand.saga.tool import FORWARD_POLICY, declared
    from countermand.saga.types import JsonObject, ToolCall

PLAIN_GRAPH = "plain-agent"


class Conversation(BaseModel):
    """What the model is asked."""

    messages: list[Message]


class Call(BaseModel):
    """A tool call, and the idempotency key that the world asks for."""

    tool: str
    args: JsonObject
    key: str


@activity.defn
async def ask(conversation: Conversation) -> AIMessage:
    """Ask the model, as any agent node would."""
    agent = ORDER_TEAM.entry
    async with heartbeats():
        model = resolve_model("stub").bind_tools(schemas(agent, {}))
        return await model.ainvoke([SystemMessage(f"{agent.instructions}\n{CONFIRMED}\n"), *conversation.messages])


@activity.defn
async def call_tool(call: Call) -> JsonObject:
    """Make a call, as any tool node would."""
    tool = declared()[call.tool]
    made = ToolCall(saga_id=call.key, step_no=1, key=call.key)
    async with heartbeats():
        result = await tool.forward(made, tool.args.model_validate(call.args))
    return result.model_dump(mode="json")


class Messages(TypedDict):
    """The conversation."""

    messages: Annotated[list[AnyMessage], operator.add]


def plain_graph() -> StateGraph[Messages, None, Messages, Messages]:
    """A new graph: think, call the tools, think again."""
    made = StateGraph(Messages)
    made.add_node("agent", _agent, metadata={"execute_in": "workflow"})
    made.add_node("tools", _tools, metadata={"execute_in": "workflow"})
    made.add_edge(START, "agent")
    made.add_edge("tools", "agent")
    made.add_conditional_edges("agent", _after_agent)
    return made


async def _agent(state: Messages) -> Messages:
    answer = await workflow.execute_activity(
        ask,
        Conversation(messages=state["messages"]),
        start_to_close_timeout=timedelta(seconds=90),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RetryPolicy(maximum_attempts=3),
    )
    return {"messages": [answer]}


async def _tools(state: Messages) -> Messages:
    last = state["messages"][-1]
    calls = last.tool_calls if isinstance(last, AIMessage) else []
    made = sum(isinstance(message, ToolMessage) for message in state["messages"])
    return {"messages": [await _answer(call, no) for no, call in enumerate(calls, start=made + 1)]}


async def _answer(call: ModelCall, no: int) -> ToolMessage:
    result: JsonObject = {"state": "committed"}
    if call["name"] != "commit":
        result = await workflow.execute_activity(
            call_tool,
            Call(tool=call["name"], args=call["args"], key=f"{workflow.info().workflow_id}:{no}"),
            start_to_close_timeout=FORWARD_POLICY.start_to_close,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_attempts=3),
        )
    return ToolMessage(content=json.dumps(result), tool_call_id=call["id"], name=call["name"])


async def _after_agent(state: Messages) -> Literal["tools", "__end__"]:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else "__end__"


@workflow.defn
class PlainAgent:
    """One order, placed by an agent; what fails half-way stands."""

    @workflow.run
    async def run(self, text: str) -> str:
        """Place the order; answers the agent's last words."""
        result = await graph(PLAIN_GRAPH).compile().ainvoke({"messages": [HumanMessage(text)]})
        return str(result["messages"][-1].text)
