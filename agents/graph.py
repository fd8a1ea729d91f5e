"""The agents' graph: think, run the calls, think again, whoever's turn it is.

Nodes run in the workflow; what they do are its activities.
"""

from typing import Annotated, Literal, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
from langgraph.runtime import Runtime
from langgraph.types import Command

from countermand.agents.team import Team
from countermand.agents.turn import Turn

GRAPH = "countermand-team"
"""The name under which workers hold the graph."""

_IN_WORKFLOW = {"execute_in": "workflow"}


def _extend(left: list[AnyMessage], right: list[AnyMessage]) -> list[AnyMessage]:
    return [*left, *right]


class TurnState(TypedDict):
    """The messages of this turn, and whose turn it is; what came before it is known by reference."""

    messages: Annotated[list[AnyMessage], _extend]
    active: str


class Update(TypedDict):
    """What a node adds."""

    messages: list[AnyMessage]


def build_graph() -> StateGraph[TurnState, Turn, TurnState, TurnState]:
    """A new graph; temporalio-langgraph changes the one that it is given."""
    graph = StateGraph(TurnState, context_schema=Turn)
    graph.add_node("agent", _agent, metadata=_IN_WORKFLOW)
    graph.add_node("tools", _tools, metadata=_IN_WORKFLOW)
    graph.add_node("remind", _remind, metadata=_IN_WORKFLOW)
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", _after_agent)
    graph.add_conditional_edges("remind", _after_reminder)
    return graph


def draw(team: Team) -> str:
    """The team's graph in mermaid: who begins, who hands over to whom, and that any of them may end the turn."""
    drawing = StateGraph(TurnState, context_schema=Turn)
    for agent in team.agents:
        drawing.add_node(agent.name, _agent, destinations=(*agent.handoffs, END))
    drawing.add_edge(START, team.entry.name)
    return drawing.compile().get_graph().draw_mermaid()


async def _agent(state: TurnState, runtime: Runtime[Turn]) -> Update:
    return {"messages": [await runtime.context.think(state["active"], state["messages"][1:])]}


async def _tools(state: TurnState, runtime: Runtime[Turn]) -> Command[Literal["agent"]]:
    last = state["messages"][-1]
    calls = last if isinstance(last, AIMessage) else AIMessage("")
    answers, active = await runtime.context.run_calls(state["active"], calls)
    return Command(goto="agent", update={"messages": answers, "active": active})


async def _remind(state: TurnState, runtime: Runtime[Turn]) -> Update:  # noqa: ARG001 - a node takes its state
    reminder = runtime.context.reminder()
    return {"messages": [reminder] if reminder else []}


# Routers are coroutines, since LangGraph runs plain functions in threads, and a workflow has none.
async def _after_agent(state: TurnState) -> Literal["tools", "remind"]:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else "remind"


async def _after_reminder(state: TurnState) -> str:
    return END if isinstance(state["messages"][-1], AIMessage) else "agent"
