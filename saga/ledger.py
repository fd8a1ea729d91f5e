"""The saga's ledger inside its workflow: one row a step, registered before anything runs."""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from pydantic import BaseModel

from countermand.saga.history import RecordedStep
from countermand.saga.tool import AnyTool, declared
from countermand.saga.types import (
    Cause,
    CauseKind,
    Compensation,
    Effect,
    JsonObject,
    Outcome,
    Residual,
    StepReport,
    ToolCall,
)


@dataclass(eq=False)
class Step:
    """One tool call: what was asked, what came of it, and how far its undo is. ``stopped``: it is to be undone."""

    tool: AnyTool
    call: ToolCall
    args: JsonObject
    outcome: Outcome | None = None
    result: JsonObject | None = None
    failure: Cause | None = None
    compensation: Compensation = Compensation.NONE
    undo_no: int | None = None
    undo_error: str = ""
    stopped: bool = False
    failed_undo: datetime | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, recorded: RecordedStep) -> Self:
        """A step of a workflow that is gone, from its history; its tool is one that this process knows."""
        return cls(
            tool=declared()[recorded.tool],
            call=recorded.call,
            args=recorded.args,
            outcome=recorded.outcome,
            result=recorded.result,
            compensation=recorded.compensation,
            undo_no=recorded.undo_no,
            undo_error=recorded.message,
            failed_undo=recorded.failed_undo,
        )

    def recorded(self) -> RecordedStep:
        """The row for another workflow that takes it over."""
        return RecordedStep(
            tool=self.tool.name,
            call=self.call,
            args=self.args,
            outcome=self.outcome or Outcome.UNKNOWN,
            result=self.result,
            compensation=self.compensation,
            undo_no=self.undo_no,
            message=self.undo_error,
            failed_undo=self.failed_undo,
        )

    @property
    def no(self) -> int:
        """The step's number, from 1."""
        return self.call.step_no

    @property
    def undo_key(self) -> str:
        """The compensation's idempotency key; a new one where an earlier undo was done and failed afterwards."""
        key = f"{self.call.step_key}:undo"
        return f"{key}:{self.failed_undo.isoformat()}" if self.failed_undo else key

    @property
    def irreversible(self) -> bool:
        """Whether the step can't be undone."""
        return self.tool.effect is Effect.IRREVERSIBLE

    @property
    def may_stand(self) -> bool:
        """Whether an effect of this step may stand now."""
        return (
            self.tool.effect is not Effect.READ
            and self.outcome is not Outcome.REFUSED
            and self.compensation not in {Compensation.DONE, Compensation.NOOP}
        )

    def repeats(self, other: Self) -> bool:
        """Whether it is the same call as another run's step of its number."""
        return (self.no, self.tool.name, self.args) == (other.no, other.tool.name, other.args)

    def fail(self, outcome: Outcome, kind: CauseKind, message: str) -> None:
        """Record that the forward call did not answer with a result."""
        self.outcome = outcome
        self.failure = Cause(kind=kind, step_no=self.no, message=f"{self.tool.name}: {message}")

    def refuse(self, reason: str) -> None:
        """Record that the step was never run."""
        self.fail(Outcome.REFUSED, CauseKind.REFUSED, reason)

    def value(self) -> BaseModel:
        """The result of a step that is done."""
        return self.tool.result.model_validate(self.result)

    def report(self) -> StepReport:
        """The row as others see it."""
        return StepReport(
            no=self.no,
            key=self.call.step_key,
            agent=self.call.agent,
            tool=self.tool.name,
            outcome=self.outcome,
            compensation=self.compensation,
            undo_no=self.undo_no,
        )

    def residual(self) -> Residual:
        """The row as what is left standing."""
        if self.undo_error:
            message = f"{self.tool.undo_name} failed: {self.undo_error}"
        elif self.outcome is Outcome.UNKNOWN:
            message = f"{self.tool.name} may have had its effect"
        else:
            message = f"{self.tool.name} had its effect"
        return Residual(step_no=self.no, key=self.call.step_key, tool=self.tool.name, message=message)
