"""Tools that keep facts for the rest of the conversation, in sagas of a real session."""

from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage
from temporalio.client import Client

from countermand.agents.agent_saga import TurnResult
from countermand.agents.scripted import ScriptCall, ScriptStep
from countermand.agents.session import ChatSession
from countermand.agents.team import Agent, Team
from countermand.saga.types import Frozen, ToolCall
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.facts import get_fact, put_fact
from countermand.tools.tool import tool
from tests.agents.sharing import Shared, worker
from tests.cache.servers import RedisServer, valkey_program

Script = Callable[..., str]


class City(Frozen):
    name: str


class Asked(Frozen):
    pass


class Kept(Frozen):
    city: City | None


@tool(effect="read")
async def keep_city(call: ToolCall, args: City) -> Kept:
    """Keep where the customer lives."""
    await put_fact(call, "city", args)
    return Kept(city=args)


@tool(effect="read")
async def kept_city(call: ToolCall, args: Asked) -> Kept:  # noqa: ARG001 - a tool takes arguments
    """Where the customer lives."""
    return Kept(city=await get_fact(call, "city", City))


TEAM = Team(agents=(Agent(name="clerk", instructions="Keep cities.", tools=("keep_city", "kept_city")),))


@pytest.fixture
def valkey(tmp_path: Path) -> Generator[RedisServer]:
    with RedisServer(valkey_program(), tmp_path) as server:
        yield server


@pytest.fixture
async def shared(
    temporal_local: Client, world: WorldUnderTest, valkey: RedisServer, tmp_path: Path
) -> AsyncGenerator[Shared]:
    async with worker(temporal_local, world, valkey.url, f"facts-{tmp_path.name}") as shared:
        yield shared


def keeping(name: str) -> ScriptStep:
    return ScriptStep(calls=(ScriptCall(tool="keep_city", args={"name": name}),))


ASKING = ScriptStep(calls=(ScriptCall(tool="kept_city"),))
DONE = ScriptStep(say="Done.")


def told(result: TurnResult) -> list[str]:
    return [message.text for message in result.messages if isinstance(message, ToolMessage)]


async def test_a_fact_that_a_tool_stores_is_read_in_later_turns_and_from_the_cache(
    shared: Shared, script: Script
) -> None:
    model = script(ASKING, DONE, keeping("Bonn"), DONE, keeping("Bonn"), keeping("Ulm"), DONE, ASKING, DONE)
    talk = shared.env.chat(model=model, team=TEAM)

    told_in_turns = [told(await talk.say(f"turn {turn}")) for turn in range(4)]

    session = shared.env.client.get_workflow_handle_for(ChatSession.run, talk.chat.session)
    facts = await session.query(ChatSession.facts)
    assert told_in_turns[0] == ['{"city":null}']
    assert told_in_turns[3] == ['{"city":{"name":"Ulm"}}']
    assert [(fact.name, fact.value, fact.version) for fact in facts.facts] == [("city", {"name": "Ulm"}, 2)]
    assert await shared.cache.facts(talk.chat.session) == facts


async def test_facts_are_stored_while_redis_is_away(shared: Shared, script: Script, valkey: RedisServer) -> None:
    talk = shared.env.chat(model=script(keeping("Bonn"), DONE, ASKING, DONE), team=TEAM)
    valkey.kill()

    await talk.say("I live in Bonn")

    assert told(await talk.say("Where do I live?")) == ['{"city":{"name":"Bonn"}}']


async def test_a_call_that_belongs_to_no_session_is_refused_a_fact(shared: Shared, script: Script) -> None:
    turn = await shared.env.start_turn("I live in Bonn", model=script(keeping("Bonn"), DONE), team=TEAM)

    assert told(await turn.result()) == ["keep_city: facts are a session's, and this call belongs to none"]
