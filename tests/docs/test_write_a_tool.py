"""The files of docs/write-a-tool.md, run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "write-a-tool.md"
FILES = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
CONFIG = "[tool.pytest.ini_options]\nasyncio_mode = 'auto'\n" + "".join(
    f"asyncio_default_{what}_loop_scope = 'session'\n" for what in ("fixture", "test")
)


MORE = """
from temporalio.worker import Worker

from countermand.testing.contract import check_tool
from existing_tools import STICK_NOTE
from shelf import SHELF
from shelf_workflow import Relabel


async def test_the_workflow_commits(saga_env):
    client = saga_env.client
    async with Worker(client, task_queue="relabel", workflows=[Relabel]):
        assert await client.execute_workflow(Relabel.run, "maps", id="relabel", task_queue="relabel") == "maps"
    assert SHELF.labels["B"] == "maps"


async def test_the_existing_tool_keeps_the_contract():
    async def sample():
        return STICK_NOTE.args.model_validate({"shelf": "C", "text": "maps"})

    SHELF.labels["C"] = None
    assert await check_tool(STICK_NOTE, sample, SHELF) == []
"""
"""What the page shows but does not test."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "test_more.py").write_text(MORE)
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    return tmp_path


def test_every_block_of_the_page_is_a_file_that_is_run() -> None:
    assert PAGE.read_text("utf-8").count("```python") == len(FILES)


def test_what_the_page_shows_works(folder: Path) -> None:
    program = [sys.executable, "-m", "pytest", "-q"]
    ran = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "4 passed" in ran.stdout
