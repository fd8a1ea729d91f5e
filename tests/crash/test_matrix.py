import shutil
import sys
from pathlib import Path

import pytest

from tests.crash.cases import all_cases, few_cases
from tests.crash.matrix import Verdict, run_cases
from tests.crash.report import write_report
from tests.crash.stage import Stage

DOCS = Path(__file__).parents[2] / "docs"


async def test_whatever_strikes_an_order_it_ends_whole_or_undone(
    stage: Stage, full: bool, request: pytest.FixtureRequest
) -> None:
    """With ``--full`` all cases, on from where an interrupted run stopped; the report is written at the end."""
    folder = request.config.cache.mkdir("crash-matrix") if full and request.config.cache else None
    journal = folder / "journal.jsonl" if folder else None
    verdicts = _read(journal)
    done = {(one.plan, one.step, one.point, one.fault) for one in verdicts}
    cases = all_cases() if full else few_cases()
    left = [case for case in cases if (case.plan, case.step, case.point, case.blow) not in done]

    async for case, verdict in run_cases(stage, left):
        said = (case.name, f"seed {verdict.seed}", verdict.end_state, f"{verdict.seconds} s", *verdict.violations)
        sys.stdout.write(", ".join(said) + "\n")
        verdicts.append(verdict)
        if journal:
            with journal.open("a") as lines:
                lines.write(verdict.model_dump_json() + "\n")

    if folder:
        write_report(verdicts, DOCS)
        shutil.rmtree(folder)
    assert len(verdicts) == len(cases)
    assert [verdict for verdict in verdicts if verdict.violations] == []


def _read(journal: Path | None) -> list[Verdict]:
    if journal is None or not journal.exists():
        return []
    return [Verdict.model_validate_json(line) for line in journal.read_text().splitlines()]
