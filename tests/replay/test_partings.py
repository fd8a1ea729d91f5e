"""A change that would break sagas in flight is told, with the command and the field: a copy of the code is changed."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from tests.changed_tree import change, copy_of_the_tree, run_in
from tests.replay.make_bundles import FOLDER


class Change(BaseModel):
    """One line of workflow code is replaced; what ``replay check`` says of a bundle then."""

    model_config = ConfigDict(frozen=True)

    bundle: str
    file: str
    line: str
    by: str
    command: str
    field: str | None = None
    says: str


CHANGES = {
    "a refund of another amount": Change(
        bundle="revoked",
        file="saga/calls.py",
        line="args=step.args, result=step.result),",
        by='args=step.args, result={**(step.result or {}), "total": {"amount": 1, "currency": "usd"}}),',
        command="activity step:4:undo (refund_payment)",
        field="result.total.amount",
        says="result.total.amount is 6700 in the history, 1 in the code",
    ),
    "swapped compensations": Change(
        bundle="cancelled",
        file="saga/executor.py",
        line="for step in reversed(standing):",
        by="for step in standing:",
        command="activity step:3:undo (void_or_refund_payment)",
        says="asks for activity step:2:undo (release_stock) in its place, which the history has at event",
    ),
    "a removed activity": Change(
        bundle="committed",
        file="saga/executor.py",
        line="step.result = await call_forward(step, max_attempts=self._options.max_attempts)",
        by='step.result = {} if step.tool.name == "send_confirmation" else '
        "await call_forward(step, max_attempts=self._options.max_attempts)",
        command="(send_confirmation)",
        says="the code asks for child workflow residuals/golden-committed (ResidualsWorkflow) in its place",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_would_break_sagas_in_flight_is_told(name: str, tmp_path: Path) -> None:
    changed = CHANGES[name]
    copy_of_the_tree(tmp_path)
    change(tmp_path, changed.file, changed.line, changed.by)

    ran = run_in(tmp_path, "countermand", "replay", "check", "--json", str(FOLDER / f"{changed.bundle}.json"))

    assert ran.returncode == 1, ran.stdout + ran.stderr
    (partings,) = json.loads(ran.stdout).values()
    assert changed.command in partings[0]["command"]
    assert partings[0]["field"] == changed.field
    assert changed.says in partings[0]["message"]
    assert partings[0]["event"]
    assert "workflow.patched()" in ran.stderr
