"""Handing a saga's entries to the log: a workflow of their own, retried until they are in."""

import asyncio
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

from countermand.saga.audit.chain import Receipt
from countermand.saga.audit.entries import SagaEntries
from countermand.saga.audit.log import AuditLog

APPEND = "append_to_audit_log"


class AuditWriter:
    """A worker's end of the log.

    Args:
        log: Where receipts go.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    @activity.defn(name=APPEND)
    async def append(self, entries: SagaEntries) -> Receipt:
        """Append; the same entries again answer the receipt that they have."""
        return await asyncio.to_thread(self._log.append, entries.saga_id, entries.entries)


@workflow.defn
class AuditSaga:
    """Appends one saga's entries; never gives up, since a decision that is not in the log can't be proven."""

    @workflow.run
    async def run(self, entries: SagaEntries) -> Receipt:
        """Append the entries."""
        return await workflow.execute_activity(
            APPEND,
            entries,
            result_type=Receipt,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1)),
        )
