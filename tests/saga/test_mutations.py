"""The suite is held against itself: each guarantee is taken out of a copy of the code, and a test must notice."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from tests.changed_tree import change, copy_of_the_tree, run_in


class Mutation(BaseModel):
    """Lines of one file that are replaced, and the test that notices."""

    model_config = ConfigDict(frozen=True)

    file: str
    lines: tuple[tuple[str, str], ...]
    noticed_by: str


MUTATIONS = {
    "without the write-ahead order": Mutation(
        file="saga/executor.py",
        lines=(
            ("        self.steps.append(step)\n", ""),
            (
                "outcome = Outcome.DONE\n            except ActivityError",
                "outcome = Outcome.DONE; self.steps.append(step)\n            except ActivityError",
            ),
        ),
        noticed_by="test_cancel.py::test_a_call_in_flight_that_lands_although_it_was_cancelled_is_undone",
    ),
    "without the shield": Mutation(
        file="saga/tasks.py",
        lines=(("            await asyncio.shield(task)\n", "            await task\n"),),
        noticed_by="test_cancel.py::test_a_cancel_does_not_reach_the_undo_that_is_under_way",
    ),
    "without asking whether a cancel was swallowed": Mutation(
        file="saga/executor.py",
        lines=(("            self._failed = self.cancel_cause()\n", "            pass\n"),),
        noticed_by="test_cancel.py::test_a_cancel_during_an_undo_to_lets_it_end_and_then_undoes_the_rest",
    ),
    "without the probe": Mutation(
        file="saga/calls.py",
        lines=(
            (
                "        return ProbeAnswer.UNKNOWN\n    if",
                "        return ProbeAnswer.UNKNOWN\n    return ProbeAnswer.NOT_LANDED\n    if",
            ),
        ),
        noticed_by="test_outcomes.py::test_an_unknown_outcome_that_landed_is_done",
    ),
    "without the tombstone": Mutation(
        file="tools/world/idempotency.py",
        lines=(("    known = _known(call, body.original_key)\n", "    return\n"),),
        noticed_by="test_outcomes.py::test_a_call_that_comes_after_its_undo_is_refused_by_the_tombstone",
    ),
    "with the undos in forward order": Mutation(
        file="saga/executor.py",
        lines=(("        for step in reversed(standing):\n", "        for step in standing:\n"),),
        noticed_by="test_outcomes.py::test_steps_are_undone_in_reverse",
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_saga_that_is_not_what_it_promises_is_noticed(name: str, tmp_path: Path) -> None:
    mutation = MUTATIONS[name]
    copy_of_the_tree(tmp_path)
    for old, new in mutation.lines:
        change(tmp_path, mutation.file, old, new)

    ran = run_in(tmp_path, "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/saga/{mutation.noticed_by}")

    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout + ran.stderr
    assert f"FAILED tests/saga/{mutation.noticed_by}" in ran.stdout
