"""What some tests of sagas need beside the shared fixtures."""

import uuid
from collections.abc import AsyncGenerator

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from countermand.plugin import CountermandPlugin
from countermand.saga.setup import register_saga_state
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker
from tests.saga.stage import Stage, staged


@pytest.fixture
async def lone_env(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    """As ``saga_env``, in a namespace of its own: no other test's sagas are listed."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    day = Duration(seconds=86_400)
    await temporal_local.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=day)
    )
    host = temporal_local.service_client.config.target_host
    client = await Client.connect(host, namespace=name, plugins=[CountermandPlugin()])

    async def registered() -> bool:
        # A new namespace is known to all of the server's parts only after a moment.
        try:
            return not await register_saga_state(client)
        except RPCError:
            return False

    await until(registered)
    env = SagaEnv(client=client, task_queue=name, world=world)
    async with providers_at(world.url), build_worker(client, task_queue=name):
        yield env


@pytest.fixture
async def stage(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[Stage]:
    """A stage on Temporal's real dev server.

    Not on the time-skipping one, which loses a workflow whose activity ends as it is cancelled: see
    https://github.com/temporalio/sdk-java/issues/2391.
    """
    async with staged(temporal_local, world) as stage:
        yield stage
