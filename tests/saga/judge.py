"""The invariants of design.md, judged on the world's own ledger: I1 to I5, and I10 by the bound of ``ENDS_WITHIN``."""

from dataclasses import dataclass

from countermand.saga import SagaReport, SagaState
from countermand.saga.tool import AnyTool, declared
from countermand.saga.types import Compensation, Effect, Outcome
from countermand.tools.world.control import State
from countermand.tools.world.ledger import LedgerEntry
from tests.saga.scripted import Script, UndoTo

ENDS_WITHIN = 60.0
"""Seconds within which every saga ends once its troubles are over (I10)."""


@dataclass(frozen=True)
class Judge:
    """One saga's trace in the world, beside what the saga says of itself."""

    report: SagaReport
    world: State

    def _no(self, key: str) -> int | None:
        """The number of the step that a key belongs to, if it is this saga's."""
        saga_id, _, number = key.removesuffix(":undo").rpartition(":")
        return int(number) if saga_id == self.report.id else None

    def rows(self, direction: str) -> dict[int, LedgerEntry]:
        """The effects of this saga by their step: those of forward calls (``do``), or of undos."""
        found = [row for row in self.world.ledger if row.direction == direction and self._no(row.key or "") is not None]
        by_step = {no: row for row in found if (no := self._no(row.key or "")) is not None}
        assert len(by_step) == len(found), f"a step had its effect twice: {found}"
        return by_step

    @property
    def standing(self) -> set[int]:
        """The steps whose effects stand now."""
        return {no for effect in self.world.standing if (no := self._no(effect.key)) is not None}

    def tool(self, no: int) -> AnyTool:
        """The tool of a step."""
        return declared()[self.report.steps[no - 1].tool]

    def check(self, script: Script) -> None:
        """Every invariant holds."""
        assert self.rows("do").keys() <= {step.no for step in self.report.steps}, "an effect of no step"
        assert self.rows("undo").keys() <= self.rows("do").keys(), "an undo of what never happened had an effect"
        self._undone_in_reverse()
        self._ends_whole(script)

    def _undone_in_reverse(self) -> None:
        done, undone = self.rows("do"), self.rows("undo")
        for no, undo in undone.items():
            if self.tool(no).on_failure == "continue":
                continue
            above = {
                other
                for other, do in done.items()
                if other > no
                and do.seq < undo.seq
                and not (other in undone and undone[other].seq < undo.seq)
                and self.tool(other).effect is Effect.COMPENSABLE
                and self.report.steps[other - 1].compensation is not Compensation.FAILED
            }
            assert not above, f"step {no} was undone while {above}, started later, stood"

    def _ends_whole(self, script: Script) -> None:
        report, residuals = self.report, {residual.step_no for residual in self.report.residuals}
        done = {
            step.no
            for step in report.steps
            if step.outcome is Outcome.DONE
            and step.compensation is Compensation.NONE
            and self.tool(step.no).effect is not Effect.READ
        }
        match report.state:
            case SagaState.COMMITTED:
                assert not residuals
                assert self.standing == done
                assert script.careless or report.cancelled or _wanted(script) <= self.standing
            case SagaState.COMPENSATED:
                assert not residuals
                assert not self.standing
            case SagaState.NEEDS_ATTENTION:
                assert residuals
                # Of an undo that failed it is not known whether it was only its answer that got lost.
                assert done <= self.standing <= residuals
            case _:
                raise AssertionError(f"the saga ended as {report.state}")


def _wanted(script: Script) -> set[int]:
    """The steps whose effects the script wants to stand at its end."""
    steps: list[str] = []
    kept: set[int] = set()
    for action in script.actions:
        if isinstance(action, UndoTo):
            kept = {no for no in kept if no <= action.step_no}
            continue
        for name, _ in action.steps:
            steps.append(name)
            tool = declared()[name]
            if tool.effect is not Effect.READ and tool.on_failure == "rollback":
                kept.add(len(steps))
    return kept
