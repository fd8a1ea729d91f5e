"""What all tests share: which are left out where the shared cases are absent, and how long the long ones are."""

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.cases import FOLDER

CI_EXAMPLES, FULL_EXAMPLES = 200, 5_000

# Real servers answer in their own time; a function's fixtures are shared by its examples, which tell sagas apart.
_REAL_SERVERS = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
settings.register_profile("ci", _REAL_SERVERS, max_examples=CI_EXAMPLES, database=None)
settings.register_profile("full", _REAL_SERVERS, max_examples=FULL_EXAMPLES, database=None)

_left_out: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the crash and soak matrices in their full length")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("full" if config.getoption("--full") else "ci")
    if config.getoption("--hypothesis-seed") is None:
        # Chosen here and not by hypothesis, so that the workers of xdist get the same, and it can be told.
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"generated examples: repeat these with --hypothesis-seed={config.getoption('--hypothesis-seed')}"


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
