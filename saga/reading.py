"""Reading sagas from outside: what is listed, and one saga's ledger with its timeline."""

from datetime import datetime, timedelta

from pydantic import Field
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.errors import CountermandError
from countermand.saga.history import RecordedStep, merged, recorded_steps
from countermand.saga.names import RESIDUALS, beside, saga_of
from countermand.saga.residuals import ResidualsReport
from countermand.saga.state import SAGA_STATE
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


class SagaAccount(Frozen):
    """What the histories say of a saga, without asking a worker."""

    id: str
    state: SagaState | None = Field(description="By its workflow, its recovery or its revocation.")
    running: bool = Field(description="Whether one of those runs.")
    residuals: SagaState | None = Field(description="Of the workflow that holds its residuals, if it has any.")
    task_queue: str
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


async def final_states(client: Client) -> list[tuple[str, SagaState]]:
    """Every saga that has ended, with how, as Temporal knows it; a recovery's or a revocation's end is one, too."""
    ends = ", ".join(quoted(state) for state in (SagaState.COMMITTED, SagaState.COMPENSATED, SagaState.NEEDS_ATTENTION))
    found: list[tuple[str, SagaState]] = []
    async for execution in client.list_workflows(f"SagaState IN ({ends}) AND ExecutionStatus = 'Completed'"):
        state = execution.typed_search_attributes.get(SAGA_STATE)
        if state is not None:
            found.append((saga_of(execution.id), SagaState(state)))
    return found


async def read_saga(client: Client, saga_id: str) -> SagaDetail:
    """One saga, with its recovery, its revocation and what was decided about its residuals.

    Raises:
        NoSuchSaga: There is none of that id.
    """
    found = [one for name in beside(saga_id) if (one := await described(client, name)) is not None]
    if not found:
        raise NoSuchSaga(f"there is no saga {saga_id!r}: 'countermand saga list' shows which there are")
    last = found[-1]
    report = await _report(client, last.id)
    state = last.typed_search_attributes.get(SAGA_STATE)
    return SagaDetail(
        id=saga_id,
        state=report.state if report else SagaState(state) if state else None,
        running=any(one.status is WorkflowExecutionStatus.RUNNING and one.id == saga_id for one in found),
        cause=report.cause if report else None,
        cancelled=report.cancelled if report else False,
        residuals=report.residuals if report else (),
        steps=tuple(await all_steps(client, saga_id)),
    )


async def read_account(client: Client, saga_id: str) -> SagaAccount | None:
    """A saga's account, or None where there is none of that id (any more)."""
    found = [one for name in beside(saga_id) if (one := await described(client, name)) is not None]
    if not found:
        return None
    states = {one.id: one.typed_search_attributes.get(SAGA_STATE) for one in found}
    residuals = states.pop(f"{RESIDUALS}{saga_id}", None)
    state = list(states.values())[-1] if states else None
    return SagaAccount(
        id=saga_id,
        state=SagaState(state) if state else None,
        running=any(one.id in states and one.status is WorkflowExecutionStatus.RUNNING for one in found),
        residuals=SagaState(residuals) if residuals else None,
        task_queue=found[0].task_queue,
        steps=tuple(await all_steps(client, saga_id)),
    )


async def saga_ids(client: Client) -> set[str]:
    """The ids of all sagas that retention still holds."""
    return {saga_of(execution.id) async for execution in client.list_workflows("SagaState IS NOT NULL")}


async def all_steps(client: Client, saga_id: str) -> list[RecordedStep]:
    """A saga's ledger from the histories of every run of every workflow that tells of it."""
    runs: list[list[RecordedStep]] = []
    for name in beside(saga_id):
        newest = await described(client, name)
        if newest is None:
            continue
        earlier = [run.run_id async for run in client.list_workflows(f"WorkflowId = {quoted(name)}")]
        for run_id in {newest.run_id, *earlier}:
            history = await client.get_workflow_handle(name, run_id=run_id).fetch_history()
            runs.append(await recorded_steps(history.events, client.data_converter))
    return merged(runs)


def quoted(value: str) -> str:
    """A string for a visibility query; an id may be anything, so a quote in it must not end the string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


async def described(client: Client, workflow_id: str) -> WorkflowExecutionDescription | None:
    """The newest run of a workflow id, or None if there is none."""
    try:
        return await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


def ended_as(saga: WorkflowExecutionDescription, recovery: WorkflowExecutionDescription | None) -> SagaState | None:
    """How a saga stands by its newest run, or by the recovery that ended what that run left."""
    last = saga
    if recovery is not None and recovery.status is WorkflowExecutionStatus.COMPLETED:
        last = recovery if saga.close_time is not None and saga.close_time <= recovery.start_time else saga
    state = last.typed_search_attributes.get(SAGA_STATE)
    return SagaState(state) if state else None


async def _report(client: Client, workflow_id: str) -> SagaReport | None:
    """What the workflow says of the saga, or None where no worker can be asked."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        if workflow_id.startswith(RESIDUALS):
            left = await handle.query("report", result_type=ResidualsReport, rpc_timeout=QUERY_TIMEOUT)
            return left.saga
        return await handle.query("status", result_type=SagaReport, rpc_timeout=QUERY_TIMEOUT)
    except (RPCError, WorkflowQueryFailedError):
        return None
