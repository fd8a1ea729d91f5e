"""Waiting until calls of a turn wait for a person."""

from typing import Any

from temporalio.client import WorkflowHandle

from countermand.saga import SagaReport
from countermand.saga.types import ApprovalRequest
from countermand.testing.waiting import until


async def asked(turn: WorkflowHandle[Any, Any], number: int = 1) -> tuple[ApprovalRequest, ...]:
    """Wait until so many calls of the turn wait for a person."""
    report: SagaReport | None = None

    async def wait() -> bool:
        nonlocal report
        report = await turn.query("status", result_type=SagaReport)
        return len(report.approvals) >= number

    await until(wait)
    assert report is not None
    return report.approvals
