"""The stage that the crash matrix runs on, once a test process."""

from collections.abc import AsyncGenerator

import pytest

from countermand.tools.registry import load_tools
from tests.crash.stage import Stage, crash_stage


@pytest.fixture(scope="session")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """Servers that can be killed."""
    load_tools()
    async with crash_stage(tmp_path_factory.mktemp("crash") / "state") as running:
        yield running
