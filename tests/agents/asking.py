"""Waiting until calls of a turn wait for a person."""

from contextlib import suppress
from typing import Any

from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError

from countermand.saga import SagaReport
from countermand.saga.types import ApprovalRequest
from countermand.testing.waiting import until


async def asked(turn: WorkflowHandle[Any, Any], number: int = 1) -> tuple[ApprovalRequest, ...]:
    """Wait until so many calls of the turn wait for a person."""
    seen: list[SagaReport] = []

    async def wait() -> bool:
        # A turn that was said may not have begun: then there is nobody to ask.
        with suppress(RPCError, WorkflowQueryFailedError):
            seen.append(await turn.query("status", result_type=SagaReport))
        return bool(seen) and len(seen[-1].approvals) >= number

    await until(wait)
    return seen[-1].approvals
