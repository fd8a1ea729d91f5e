from collections.abc import AsyncGenerator

import pytest
from temporalio.client import Client

from countermand.testing.worlds import WorldUnderTest
from tests.saga.stage import Stage, staged


@pytest.fixture
async def stage(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[Stage]:
    """A stage on Temporal's real dev server.

    Not on the time-skipping one, which loses a workflow whose activity ends as it is cancelled: see
    https://github.com/temporalio/sdk-java/issues/2391.
    """
    async with staged(temporal_local, world) as stage:
        yield stage
