from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.countermand.embedded.commands import Commands, Running


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """Commands with a new state folder."""
    return Commands(tmp_path / "state")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """Commands with the state folder of ``running``, in the environment of somebody who works with another cluster."""
    elsewhere = {"TEMPORAL_ADDRESS": "192.0.2.1:7233", "TEMPORAL_API_KEY": "of-another-cluster", "TEMPORAL_TLS": "true"}
    return Commands(tmp_path_factory.mktemp("shared") / "state", elsewhere)


@pytest.fixture(scope="session")
async def running(shared: Commands) -> AsyncGenerator[Running]:
    """Servers for all tests that leave them in order."""
    async with shared.up() as servers:
        yield servers
