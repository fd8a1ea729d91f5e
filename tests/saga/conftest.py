"""What some tests of sagas need beside the shared fixtures."""

from collections.abc import AsyncGenerator
from datetime import timedelta

import pytest
from temporalio.client import Client

from countermand.saga.setup import register_saga_state
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker
from tests.namespaces import new_namespace
from tests.saga.stage import Stage, staged


@pytest.fixture
async def lone_env(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    """As ``saga_env``, in a namespace of its own."""
    client = await new_namespace(temporal_local, retention=timedelta(days=1))
    await register_saga_state(client)
    env = SagaEnv(client=client, task_queue=client.namespace, world=world)
    async with providers_at(world.url), build_worker(client, task_queue=env.task_queue):
        yield env


@pytest.fixture
async def stage(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[Stage]:
    """A stage on Temporal's real dev server.

    Not on the time-skipping one, which loses a workflow whose activity ends as it is cancelled: see
    https://github.com/temporalio/sdk-java/issues/2391.
    """
    async with staged(temporal_local, world) as stage:
        yield stage
