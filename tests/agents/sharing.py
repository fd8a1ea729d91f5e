"""Workers that share conversations through Redis."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from temporalio.client import Client

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.plugin import CountermandPlugin
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.facts import facts_shared_by
from countermand.worker import build_worker


@dataclass(frozen=True)
class Shared:
    """A worker with a near cache of its own, and Redis behind."""

    env: SagaEnv
    cache: ContextCache
    feed: Feed


@asynccontextmanager
async def worker(client: Client, world: WorldUnderTest, url: str, queue: str) -> AsyncGenerator[Shared]:
    """A worker of a queue; two of them take turns, each with a cache of its own."""
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Connection(url))
        cache, feed = ContextCache(redis), Feed(redis)
        stack.enter_context(facts_shared_by(cache))
        config = client.config()
        config["plugins"] = [CountermandPlugin(cache=cache, feed=feed)]
        env = SagaEnv(client=Client(**config), task_queue=queue, world=world)
        await stack.enter_async_context(providers_at(world.url))
        await stack.enter_async_context(build_worker(env.client, task_queue=queue))
        yield Shared(env, cache, feed)
