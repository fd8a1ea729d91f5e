"""What the tests of tools share."""

from collections.abc import AsyncGenerator

import pytest

from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at


@pytest.fixture
async def providers(world: WorldUnderTest) -> AsyncGenerator[None]:
    """Tools called by hand reach the world."""
    async with providers_at(world.url):
        yield
