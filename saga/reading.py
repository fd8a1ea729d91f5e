"""Reading sagas from outside: what is listed, and one saga's ledger with its timeline."""

from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.errors import CountermandError
from countermand.saga.executor import SAGA_STATE
from countermand.saga.history import RecordedStep, merged, recorded_steps
from countermand.saga.recovery import PREFIX
from countermand.saga.types import Cause, Frozen, Residual, SagaReport, SagaState

QUERY_TIMEOUT = timedelta(seconds=5)


class NoSuchSaga(CountermandError):
    """There is no workflow of that id, or retention has ended."""


class SagaLine(Frozen):
    """A saga in a list."""

    id: str
    state: SagaState
    running: bool
    started: datetime
    closed: datetime | None


class SagaDetail(Frozen):
    """One saga: its ledger from the histories of all its runs, and why it ended as it did."""

    id: str
    state: SagaState | None
    running: bool
    cause: Cause | None
    cancelled: bool
    residuals: tuple[Residual, ...]
    steps: tuple[RecordedStep, ...]


async def list_sagas(client: Client, *, state: SagaState | None, limit: int) -> list[SagaLine]:
    """The newest sagas, all or those of one state."""
    query = f"SagaState = '{state}'" if state else "SagaState IS NOT NULL"
    lines: list[SagaLine] = []
    async for execution in client.list_workflows(query, limit=limit):
        shown = execution.typed_search_attributes.get(SAGA_STATE)
        if shown is not None:
            lines.append(
                SagaLine(
                    id=execution.id,
                    state=SagaState(shown),
                    running=execution.status is WorkflowExecutionStatus.RUNNING,
                    started=execution.start_time,
                    closed=execution.close_time,
                )
            )
    return lines


async def read_saga(client: Client, saga_id: str) -> SagaDetail:
    """One saga, its recovery included.

    Raises:
        NoSuchSaga: There is none of that id.
    """
    found = [
        execution
        for workflow_id in (saga_id, f"{PREFIX}{saga_id}")
        if (execution := await _described(client, workflow_id)) is not None
    ]
    if not found:
        raise NoSuchSaga(f"there is no saga {saga_id!r}: 'countermand saga list' shows which there are")
    runs: list[list[RecordedStep]] = []
    report: SagaReport | None = None
    for execution in found:
        history = await client.get_workflow_handle(execution.id).fetch_history()
        runs.append(await recorded_steps(history.events, client.data_converter))
        report = await _report(client, execution.id) or report
    newest = found[-1]
    state = newest.typed_search_attributes.get(SAGA_STATE)
    return SagaDetail(
        id=saga_id,
        state=SagaState(state) if state else None,
        running=newest.status is WorkflowExecutionStatus.RUNNING,
        cause=report.cause if report else None,
        cancelled=report.cancelled if report else False,
        residuals=report.residuals if report else (),
        steps=tuple(merged(runs)),
    )


async def _described(client: Client, workflow_id: str) -> WorkflowExecutionDescription | None:
    try:
        return await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def _report(client: Client, workflow_id: str) -> SagaReport | None:
    """What the saga says of itself, or None where no worker can be asked."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        return await handle.query("status", result_type=SagaReport, rpc_timeout=QUERY_TIMEOUT)
    except (RPCError, WorkflowQueryFailedError):
        return None
