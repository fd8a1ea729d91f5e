"""Conversations that every worker shares through Redis, and that lose nothing without it."""

from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from temporalio.client import Client

from countermand.agents.agent_saga import TurnResult
from countermand.agents.conversation import MAX_CONVERSATION_BYTES
from countermand.agents.feed import STEP, TEXT
from countermand.agents.session import MAX_TEXT, ChatSession
from countermand.cache.feed import BEGINNING
from countermand.cache.types import FeedEvent
from countermand.saga import SagaState
from countermand.testing.worlds import WorldUnderTest
from tests.agents.sharing import worker
from tests.cache.servers import RedisServer, valkey_program
from tests.saga.orders import EFFECTS, standing_kinds

ORDER = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers"
TALK = [
    "hello", "what can you do?", "I need an environment", "a medium one", "in eu-west", "for ada@example.com",
    "not small, medium", "at ada.example.dev", "two load balancers", "make it large", "no, medium", "in eu-north",
    "no, in eu-west", "hello?", "not yet", "for ada@example.com", "at ada.example.dev", ORDER, "yes", "thanks, hello",
]  # fmt: skip


@pytest.fixture
def valkey(tmp_path: Path) -> Generator[RedisServer]:
    with RedisServer(valkey_program(), tmp_path) as server:
        yield server


def as_told(result: TurnResult) -> tuple[str, SagaState, list[str]]:
    """A turn's answer without its ids, which are each run's own."""
    words = [word for word in result.text.split() if not word.startswith(("clu_", "lb_", "pay_"))]
    return " ".join(words), result.saga.state, [step.tool for step in result.saga.steps]


async def test_a_turn_reads_from_the_cache_what_the_turn_before_shared(
    temporal_local: Client, world: WorldUnderTest, valkey: RedisServer
) -> None:
    async with worker(temporal_local, world, valkey.url, "shared-one") as one:
        talk = one.env.chat()
        await talk.say(ORDER)
        before = one.cache.counters()
        placed = await talk.say("yes")
        after = one.cache.counters()

    assert placed.saga.state is SagaState.COMMITTED
    assert after.hits_near > before.hits_near
    assert after.misses_absent == before.misses_absent


async def test_two_workers_alternate_on_one_session_and_each_reads_the_others_turn(
    temporal_local: Client, world: WorldUnderTest, valkey: RedisServer
) -> None:
    queue = "shared-two"
    async with worker(temporal_local, world, valkey.url, queue) as first:
        talk = first.env.chat()
        await talk.say(ORDER)
    async with worker(temporal_local, world, valkey.url, queue) as second:
        placed = await talk.say("yes")
        counters = second.cache.counters()

    assert placed.saga.state is SagaState.COMMITTED
    assert counters.hits_redis >= 1
    assert counters.misses_absent == counters.misses_digest == 0
    assert await standing_kinds(first.env) == sorted(EFFECTS)


async def flush(server: RedisServer) -> None:
    async with Redis(host="127.0.0.1", port=server.port) as client:
        await client.flushall()


async def hang(server: RedisServer) -> None:
    server.hang()


async def kill(server: RedisServer) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize("blow", [flush, hang, kill])
async def test_losing_redis_in_the_middle_of_every_turn_changes_no_answer(
    temporal_local: Client, world: WorldUnderTest, valkey: RedisServer, blow: Callable[[RedisServer], Awaitable[None]]
) -> None:
    async with worker(temporal_local, world, valkey.url, f"shared-{blow.__name__}") as shared:
        calm = shared.env.chat()
        undisturbed = [as_told(await calm.say(text)) for text in TALK]
        expected = await standing_kinds(shared.env)
        await world.reset()
        talk = shared.env.chat()
        disturbed: list[tuple[str, SagaState, list[str]]] = []
        for text in TALK:
            turn = await talk.begin(text)
            await blow(valkey)
            disturbed.append(as_told(await talk.chat.result(turn)))
            valkey.go_on()

    assert disturbed == undisturbed
    assert await standing_kinds(shared.env) == expected == sorted(EFFECTS)


async def test_the_feed_tells_of_steps_and_of_the_models_words(
    temporal_local: Client, world: WorldUnderTest, valkey: RedisServer
) -> None:
    async with worker(temporal_local, world, valkey.url, "shared-feed") as shared:
        talk = shared.env.chat()
        placed = await talk.say(ORDER, confirmed=True)
        events = await shared.feed.read(talk.chat.session, BEGINNING, 1000)

    assert isinstance(events, tuple)
    assert all(isinstance(event, FeedEvent) for event in events)
    words = "".join(str(event.data["text"]) for event in events if event.kind == TEXT)
    ended = [event.data["step"] for event in events if event.kind == STEP and event.data["phase"] == "done"]
    assert words == placed.text
    assert sorted(str(step) for step in ended) == sorted(str(step.no) for step in placed.saga.steps)


async def test_a_conversation_whose_oldest_turns_are_dropped_is_still_found_in_the_cache(
    temporal_local: Client, world: WorldUnderTest, valkey: RedisServer
) -> None:
    async with worker(temporal_local, world, valkey.url, "shared-long") as shared:
        talk = shared.env.chat()
        turns = MAX_CONVERSATION_BYTES // MAX_TEXT + 4
        for turn in range(turns):
            await talk.say(f"{turn} {'x' * (MAX_TEXT - 10)}")
        counters = shared.cache.counters()
        session = shared.env.client.get_workflow_handle_for(ChatSession.run, talk.chat.session)
        context = await session.query(ChatSession.context)

    assert len(context.messages) < 1 + 2 * turns
    assert counters.hits_near == turns - 1
    assert counters.misses_digest == counters.misses_version == 0
