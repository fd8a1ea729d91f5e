import asyncio
import os
from collections.abc import AsyncGenerator

import pytest
from cryptography.fernet import Fernet
from redis.asyncio import Redis

from countermand.cache.connection import Connection
from countermand.cache.encoding import Encoding
from countermand.cache.feed import Feed
from countermand.cache.types import FeedEvent, FeedLost

from .conftest import PATIENT
from .servers import RedisServer

KEY = "cm:{default/s1}:feed:1"


async def take(count: int, tail: AsyncGenerator[FeedEvent | FeedLost]) -> list[FeedEvent | FeedLost]:
    taken = [await anext(tail) for _ in range(count)]
    await tail.aclose()
    return taken


async def read(feed: Feed, after: str = "0") -> list[object]:
    events = await feed.read("s1", after)
    assert not isinstance(events, FeedLost)
    return [event.data["n"] for event in events]


async def test_events_are_read_in_order_and_from_an_id(feed: Feed) -> None:
    ids = [await feed.append("s1", "step", {"n": n}) for n in range(5)]
    assert await read(feed) == [0, 1, 2, 3, 4]
    assert await read(feed, ids[2] or "") == [3, 4]
    assert await feed.read("s1", after="0", count=1) == (FeedEvent(id=ids[0] or "", kind="step", data={"n": 0}),)


async def test_an_empty_feed_has_no_events(feed: Feed) -> None:
    assert await feed.read("s1") == ()


async def test_a_tail_gives_what_is_there_and_what_comes(feed: Feed) -> None:
    await feed.append("s1", "step", {"n": 0})
    reader = asyncio.create_task(take(3, feed.tail("s1")))
    await feed.append("s1", "step", {"n": 1})
    await feed.append("s1", "step", {"n": 2})
    assert [event.data["n"] for event in await reader if isinstance(event, FeedEvent)] == [0, 1, 2]


async def test_a_tail_waits_longer_than_one_block_for_an_event(feed: Feed) -> None:
    reader = asyncio.create_task(take(1, feed.tail("s1")))
    done, _ = await asyncio.wait({reader}, timeout=0.7)
    assert not done
    await feed.append("s1", "step", {"n": 0})
    assert [type(item) for item in await reader] == [FeedEvent]


async def test_a_tail_resumes_after_the_last_id_it_saw(feed: Feed) -> None:
    for n in range(4):
        await feed.append("s1", "step", {"n": n})
    first, second = await take(2, feed.tail("s1"))
    assert isinstance(first, FeedEvent)
    assert isinstance(second, FeedEvent)
    rest = await take(2, feed.tail("s1", after=second.id))
    assert [event.data["n"] for event in rest if isinstance(event, FeedEvent)] == [2, 3]


async def test_a_feed_is_trimmed(connection: Connection, raw: Redis) -> None:
    feed = Feed(connection, max_events=100)
    for n in range(500):
        await feed.append("s1", "token", {"n": n})
    assert 100 <= await raw.xlen(KEY) <= 300
    assert (await read(feed))[0] not in range(200)


async def test_a_feed_expires_after_its_last_event(connection: Connection, raw: Redis) -> None:
    await Feed(connection, ttl=60).append("s1", "step", {})
    assert 0 < await raw.pttl(KEY) <= 60_000


async def test_a_tail_ends_by_telling_where_to_resume_when_redis_dies(valkey: RedisServer) -> None:
    async with Connection(valkey.url, PATIENT) as connection:
        feed = Feed(connection)
        id_ = await feed.append("s1", "step", {"n": 0})
        tail = feed.tail("s1")
        await anext(tail)
        valkey.kill()
        assert [item async for item in tail] == [FeedLost(after=id_ or "")]


async def test_a_tail_ends_when_redis_hangs(valkey: RedisServer) -> None:
    async with Connection(valkey.url, PATIENT.model_copy(update={"connect_timeout": 0.5})) as connection:
        tail = Feed(connection).tail("s1")
        valkey.hang()
        assert [item async for item in tail] == [FeedLost(after="0")]


async def test_a_tail_without_redis_says_so_at_once(valkey: RedisServer) -> None:
    valkey.kill()
    async with Connection(valkey.url) as connection:
        assert [item async for item in Feed(connection).tail("s1", "5-1")] == [FeedLost(after="5-1")]


async def test_entries_that_are_not_ours_are_stepped_over(feed: Feed, raw: Redis) -> None:
    await feed.append("s1", "step", {"n": 0})
    await raw.xadd(KEY, {"e": b"\x80\x04pickle"})
    await raw.xadd(KEY, {"other": b"field"})
    await raw.xadd(KEY, {"e": b'j{"kind":"step"}'})
    await feed.append("s1", "step", {"n": 1})
    assert await read(feed) == [0, 1]
    taken = await take(2, feed.tail("s1"))
    assert [event.data["n"] for event in taken if isinstance(event, FeedEvent)] == [0, 1]


async def test_a_key_of_another_type_makes_way(feed: Feed, raw: Redis) -> None:
    await raw.set(KEY, "poison")
    assert await feed.read("s1") == FeedLost(after="0")
    assert await feed.append("s1", "step", {"n": 0})
    assert await read(feed) == [0]


async def test_an_event_over_the_limit_is_not_sent(feed: Feed, raw: Redis) -> None:
    assert await feed.append("s1", "step", {"text": os.urandom(2**18).hex()}) is None
    assert await raw.exists(KEY) == 0


async def test_with_a_cipher_no_event_is_in_clear(connection: Connection, raw: Redis) -> None:
    feed = Feed(connection, encoding=Encoding(cipher=Fernet(Fernet.generate_key())))
    await feed.append("s1", "step", {"n": "secret"})
    assert "secret" not in str(await raw.xrange(KEY))
    assert await read(feed) == ["secret"]


async def test_another_tenants_feed_is_another_feed(connection: Connection, feed: Feed) -> None:
    await Feed(connection, tenant="other").append("s1", "step", {"n": 0})
    assert await feed.read("s1") == ()


@pytest.mark.parametrize("after", ["", "abc", "1-2-3", "-1", "$", "1-\n"])
async def test_what_is_no_event_id_is_told(feed: Feed, after: str) -> None:
    with pytest.raises(ValueError, match=r"^after: "):
        await feed.read("s1", after)
