import sys

import pytest

from tests.crash.cases import Blow, all_cases, few_cases
from tests.crash.journal import Journal
from tests.crash.matrix import run_cases
from tests.crash.stage import Stage


@pytest.mark.parametrize("blow", Blow, ids=lambda blow: blow.name.lower())
async def test_whatever_strikes_an_order_it_ends_whole_or_undone(
    crash_stage: Stage, journal: Journal, blow: Blow, full: bool
) -> None:
    """With ``--full`` every case, on from where an interrupted run stopped."""
    cases = [case for case in (all_cases() if full else few_cases()) if case.blow is blow]

    async for case, verdict in run_cases(crash_stage, [case for case in cases if case not in journal]):
        said = (case.name, f"seed {verdict.seed}", verdict.end_state, f"{verdict.seconds} s", *verdict.violations)
        sys.stdout.write(", ".join(said) + "\n")
        journal.write(verdict)

    verdicts = [verdict for verdict in journal.verdicts if verdict.fault == blow]
    assert len(verdicts) == len(cases)
    assert [verdict for verdict in verdicts if verdict.violations] == []
