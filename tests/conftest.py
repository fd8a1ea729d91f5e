"""What all tests share: which are left out where the shared cases are absent, and how long the long ones are."""

from pathlib import Path

import pytest

from tests.cases import FOLDER

_left_out: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the crash and soak matrices in their full length")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if FOLDER.is_dir() or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    if "from tests.cases import" not in collection_path.read_text():
        return None
    _left_out.append(collection_path.name)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        terminalreporter.write_line(f"left out, since there is no {FOLDER}: {', '.join(sorted(_left_out))}")


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the long matrices run in their full length."""
    return bool(request.config.getoption("--full"))
