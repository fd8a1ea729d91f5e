"""The journal: what the audit log is told of a saga, kept in order by its workflow and handed over at its end."""

import asyncio
import json
from datetime import datetime
from typing import Literal, TypedDict

import rfc8785
from pydantic import JsonValue
from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from countermand.saga.audit.appending import AuditSaga
from countermand.saga.audit.entries import (
    ApprovalEntry,
    CloseEntry,
    DecisionEntry,
    Entry,
    OutcomeEntry,
    RecoveryEntry,
    ResidualEntry,
    RevokeEntry,
    SagaEntries,
    StepEntry,
    UndoEntry,
    VerdictEntry,
    digest,
)
from countermand.saga.ledger import Step
from countermand.saga.names import AUDIT
from countermand.saga.tasks import uninterrupted
from countermand.saga.types import Outcome, SagaOptions, SagaReport, SagaState


class _Base(TypedDict):
    seq: int
    time: datetime
    actor: str


_ENDS = (SagaState.COMMITTED, SagaState.COMPENSATED, SagaState.NEEDS_ATTENTION)


class Journal:
    """One workflow's entries about one saga.

    Args:
        saga_id: Whose they are.
        options: Whether there is an audit log to hand them to.
    """

    def __init__(self, saga_id: str, options: SagaOptions) -> None:
        self._saga_id = saga_id
        self._kept = options.audit
        self._entries: list[Entry] = []
        self._told: set[Step] = set()

    def decided(self, agent: str, *, model: str, prompt: str, reply: JsonValue) -> None:
        """A model answered; ``prompt`` is the digest of all that it read."""
        if self._kept:
            self._add(
                DecisionEntry(**self._base(f"agent:{agent}"), model=model, prompt=prompt, reply=safe_digest(reply))
            )

    def judged(
        self,
        tool: str,
        args: str,
        *,
        rule: str,
        verdict: Literal["allowed", "refused", "needs_approval"],
        step_no: int | None = None,
    ) -> None:
        """The guard judged a call that is no step, or that was to be step ``step_no``; ``args`` is their digest."""
        if self._kept:
            self._add(
                VerdictEntry(**self._base("guard"), step_no=step_no, tool=tool, args=args, rule=rule, verdict=verdict)
            )

    def registered(self, step: Step, *, asks: bool = False) -> None:
        """The guard let a call become a step; ``asks``: a person must agree before it runs."""
        if not self._kept:
            return
        who = f"agent:{step.call.agent}" if step.call.agent else "executor"
        args = safe_digest(step.args)
        verdict = "needs_approval" if asks else "allowed"
        self.judged(step.tool.name, args, rule=step.call.rule, verdict=verdict, step_no=step.no)
        self._add(
            StepEntry(
                **self._base(who),
                step_no=step.no,
                key=step.call.step_key,
                tool=step.tool.name,
                effect=step.tool.effect,
                args=args,
            )
        )

    def approved(self, step: Step, *, granted: bool, by: str, reason: str) -> None:
        """A person agreed to a step, or did not, or did not answer; ``by`` is an actor."""
        if self._kept:
            told = safe_digest(reason) if reason else None
            self._add(ApprovalEntry(**self._base(by), step_no=step.no, granted=granted, reason=told))

    def taken_over(self, steps: list[Step]) -> None:
        """Steps of a workflow that is gone, which could hand nothing over."""
        for step in steps:
            self.registered(step)
            self.came_to(step)

    def came_to(self, step: Step) -> None:
        """A forward call came to its outcome; told once."""
        if self._kept and step not in self._told:
            self._told.add(step)
            self._add(
                OutcomeEntry(
                    **self._base("executor"),
                    step_no=step.no,
                    key=step.call.step_key,
                    outcome=step.outcome or Outcome.UNKNOWN,
                    result=None if step.result is None else safe_digest(step.result),
                )
            )

    def undone(self, step: Step, actor: str = "executor") -> None:
        """A compensation came to its end."""
        if self._kept:
            self._add(
                UndoEntry(
                    **self._base(actor),
                    step_no=step.no,
                    undo_no=step.undo_no or 1,
                    key=step.call.step_key,
                    compensation=step.compensation,
                )
            )

    def found(self, closed_as: str, state: SagaState) -> None:
        """The janitor found the saga without a workflow."""
        if self._kept:
            self._add(RecoveryEntry.model_validate({**self._base("janitor"), "closed_as": closed_as, "found": state}))

    def revoked(self, by: str, reason: str) -> None:
        """Somebody countermanded the saga."""
        if self._kept:
            self._add(RevokeEntry(**self._base(by), reason=safe_digest(reason)))

    def left(self, step: Step, *, decision: str, by: str, reason: str) -> None:
        """Something was left standing, or somebody decided what becomes of it."""
        if self._kept:
            self._add(
                ResidualEntry.model_validate(
                    {
                        **self._base(by),
                        "step_no": step.no,
                        "key": step.call.step_key,
                        "tool": step.tool.name,
                        "decision": decision,
                        "reason": safe_digest(reason) if reason else None,
                    }
                )
            )

    async def close(self, report: SagaReport) -> None:
        """The saga ended: hand everything over, to a workflow of its own that retries until it is in the log.

        Nobody waits for the log: a log that is down delays no answer.
        """
        if not self._kept or report.state not in _ENDS:
            return
        cause = report.cause
        self._add(
            CloseEntry.model_validate(
                {
                    **self._base("executor"),
                    "state": report.state,
                    "cancelled": report.cancelled,
                    "cause": cause.kind if cause else None,
                    "cause_step": cause.step_no if cause else None,
                    "message": safe_digest(cause.message) if cause else None,
                }
            )
        )
        handed, self._entries = SagaEntries(saga_id=self._saga_id, entries=tuple(self._entries)), []
        # Its start is awaited, since a server drops the children of a workflow that has closed; its end is not.
        await uninterrupted(asyncio.create_task(_hand_over(handed)))

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)

    def _base(self, actor: str) -> _Base:
        return {"seq": len(self._entries) + 1, "time": workflow.now(), "actor": actor}


async def _hand_over(entries: SagaEntries) -> None:
    try:
        await workflow.start_child_workflow(
            AuditSaga.run,
            entries,
            id=f"{AUDIT}{workflow.info().workflow_id}",
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
        )
    except WorkflowAlreadyStartedError:
        workflow.logger.warning("a run that was reset hands its entries over already; verify finds what is missing")


def safe_digest(value: JsonValue) -> str:
    """The digest of a value; of its JSON text where it has no canonical form, since nothing may go unrecorded."""
    try:
        return digest(value)
    except rfc8785.CanonicalizationError:
        return digest(json.dumps(value, sort_keys=True))
