from collections.abc import AsyncGenerator

import pytest

from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands, Running


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Commands with the state folder of ``running``."""
    return Commands(tmp_path_factory.mktemp("e2e") / "state")


@pytest.fixture(scope="session")
async def running(commands: Commands) -> AsyncGenerator[Running]:
    """Servers as ``countermand up`` starts them."""
    async with commands.up() as servers:
        yield servers


@pytest.fixture
async def embedded_world(running: Running) -> WorldUnderTest:
    """The world of ``running``, empty."""
    world = WorldUnderTest(running.endpoints.world_url)
    await world.reset()
    return world
