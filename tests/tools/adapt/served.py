"""A client and a worker that know the tools declared by now, whenever the session's own were made."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.client import Client

from countermand.plugin import CountermandPlugin
from countermand.testing.env import SagaEnv, replay_all
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker


@asynccontextmanager
async def served(temporal: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    host = temporal.service_client.config.target_host
    client = await Client.connect(host, namespace=temporal.namespace, plugins=[CountermandPlugin()])
    queue = f"adapted-{uuid.uuid4().hex[:12]}"
    async with providers_at(world.url), build_worker(client, task_queue=queue):
        yield SagaEnv(client=client, task_queue=queue, world=world)
    await replay_all(client, queue)
