"""The stage that the crash matrix runs on, once a test process, and its journal."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from countermand.tools.registry import load_tools
from tests.crash.cases import all_cases
from tests.crash.journal import Journal
from tests.crash.report import write_report
from tests.crash.stage import Stage, raised

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
async def crash_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    """Servers that can be killed."""
    load_tools()
    async with raised(tmp_path_factory.mktemp("crash") / "state") as stage:
        yield stage


@pytest.fixture(scope="session")
def journal(request: pytest.FixtureRequest, full: bool) -> Generator[Journal]:
    """The verdicts so far; of a whole matrix, the report is written at the end."""
    folder = request.config.cache.mkdir("crash-matrix") if full and request.config.cache else None
    journal = Journal(folder / "journal.jsonl" if folder else None)
    yield journal
    if len(journal.verdicts) == len(all_cases()):
        write_report(journal.verdicts, DOCS)
        journal.clear()
