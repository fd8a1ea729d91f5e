"""A Valkey for all tests of a worker, emptied before each, and one that a test may break."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from countermand.cache.connection import Connection, ConnectionOptions
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed

from .servers import RedisServer, valkey_program

PATIENT = ConnectionOptions(budget=10)
"""For tests of what is stored, not how fast: a busy machine is no fault."""


@pytest.fixture(scope="session")
def shared_valkey(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    with RedisServer(valkey_program(), tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
async def raw(shared_valkey: RedisServer) -> AsyncGenerator[Redis]:
    """The emptied server as anybody may reach it, past the cache."""
    async with Redis(host="127.0.0.1", port=shared_valkey.port) as client:
        await client.flushall()
        yield client


@pytest.fixture
async def connection(shared_valkey: RedisServer, raw: Redis) -> AsyncGenerator[Connection]:
    del raw
    async with Connection(shared_valkey.url, PATIENT) as connection:
        yield connection


@pytest.fixture
def cache(connection: Connection) -> ContextCache:
    return ContextCache(connection)


@pytest.fixture
def elsewhere(connection: Connection) -> ContextCache:
    """The same cache as another worker sees it: with a near cache of its own."""
    return ContextCache(connection)


@pytest.fixture
def feed(connection: Connection) -> Feed:
    return Feed(connection)


@pytest.fixture
def valkey(tmp_path: Path) -> Generator[RedisServer]:
    """A server of the test's own, to hang and kill."""
    with RedisServer(valkey_program(), tmp_path) as server:
        yield server
