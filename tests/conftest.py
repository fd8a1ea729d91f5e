"""``--full``, and the seed of generated examples: printed always, so that a failure elsewhere can be had here."""

import random

import pytest
from hypothesis import HealthCheck, settings

CI_EXAMPLES, FULL_EXAMPLES = 200, 5_000

# Real servers answer in their own time; fixtures of a function are shared by its examples, which tell their sagas apart.
_REAL_SERVERS = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
settings.register_profile("ci", _REAL_SERVERS, phases=[__import__("hypothesis").Phase.generate], max_examples=CI_EXAMPLES, database=None)
settings.register_profile("full", _REAL_SERVERS, max_examples=FULL_EXAMPLES, database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help=f"{FULL_EXAMPLES} generated examples a test (slow)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("full" if config.getoption("--full") else "ci")
    if config.getoption("--hypothesis-seed") is None:
        # Chosen here and not by hypothesis, so that the workers of xdist get the same, and it can be told.
        config.option.hypothesis_seed = str(random.SystemRandom().getrandbits(32))


def pytest_report_header(config: pytest.Config) -> str:
    return f"generated examples: repeat these with --hypothesis-seed={config.getoption('--hypothesis-seed')}"
