"""pytest fixtures: real servers for tests of agents, tools and sagas. Loaded by itself where countermand is installed.

Servers are started once a test process (so once a worker of pytest-xdist) and on free ports; worlds and task queues are
each test's own.
"""

import os
import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

import pytest
import yaml
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from countermand.agents.cassette import cassette_at
from countermand.agents.models import ALLOWED
from countermand.agents.scripted import ScriptStep
from countermand.settings import Settings
from countermand.testing import servers
from countermand.testing.env import SagaEnv, replay_all
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools
from countermand.tools.world.server import serve_world
from countermand.worker import build_worker


@pytest.fixture(scope="session", autouse=True)
def _no_model_requests() -> Generator[None]:
    """A test that asks a real model is an error, also in processes that it starts, unless the variable allows it."""
    chosen = os.environ.get(ALLOWED)
    os.environ.setdefault(ALLOWED, "0")
    yield
    if chosen is None:
        del os.environ[ALLOWED]


@pytest.fixture(scope="session")
async def temporal_local() -> AsyncGenerator[Client]:
    """A client of Temporal's real dev server, in memory."""
    load_tools(Settings().tools)
    async with servers.temporal_local() as client:
        yield client


@pytest.fixture(scope="session")
async def temporal_skipping() -> AsyncGenerator[WorkflowEnvironment]:
    """The time-skipping server: timers cost nothing. It knows no search attributes and lists no workflows."""
    load_tools(Settings().tools)
    async with servers.temporal_skipping() as env:
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
def script(tmp_path: Path) -> Callable[..., str]:
    """Writes a script of ``ScriptStep`` and answers the name of the model that plays it: ``script:PATH``."""

    def write(*steps: ScriptStep) -> str:
        path = tmp_path / f"script-{uuid.uuid4().hex[:8]}.yaml"
        path.write_text(yaml.safe_dump([step.model_dump(mode="json") for step in steps]), "utf-8")
        return f"script:{path}"

    return write


@pytest.fixture
def cassette() -> Generator[Callable[[Path], str]]:
    """Answers the name of the model that replays a cassette; an exchange that the test never asks for fails it."""
    paths: list[Path] = []

    def name(path: Path) -> str:
        paths.append(path)
        return f"cassette:{path}"

    yield name
    for path in paths:
        stale = cassette_at(path.absolute()).unused()
        if stale:
            last = stale[0].messages[-1] if stale[0].messages else {}
            raise AssertionError(
                f"cassette {path}: {len(stale)} exchanges were never asked for, the first after {str(last)[:200]}: "
                "record it anew"
            )


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
