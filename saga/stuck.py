"""Stuck sagas: they run, but no worker gets their workflow task done."""

from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from countermand.saga.reading import quoted
from countermand.saga.types import SagaState

TRIES = 3
"""A workflow task that was tried so often fails for a reason that trying again does not mend."""

PATIENCE = timedelta(seconds=30)
"""How long a saga may run before it is looked at, and how long a task may wait for a worker."""


async def stuck_sagas(client: Client, *, patience: timedelta = PATIENCE) -> tuple[str, ...]:
    """Running sagas whose workflow task fails again and again, or is taken by no worker; a line for each."""
    states = ", ".join(map(quoted, (SagaState.OPEN, SagaState.COMPENSATING)))
    before = (datetime.now(UTC) - patience).isoformat()
    query = f"SagaState IN ({states}) AND ExecutionStatus = 'Running' AND StartTime <= '{before}'"
    found: list[str] = []
    async for execution in client.list_workflows(query):
        described = await client.get_workflow_handle(execution.id, run_id=execution.run_id).describe()
        task = described.raw_description.pending_workflow_task
        waited = datetime.now(UTC) - task.original_scheduled_time.ToDatetime(UTC)
        if task.attempt >= TRIES:
            found.append(f"{execution.id}: its workflow task failed {task.attempt - 1} times: see the worker's log")
        elif task.HasField("original_scheduled_time") and waited > patience:
            found.append(f"{execution.id}: no worker has taken its task for {waited.total_seconds():.0f} s: start one")
    return tuple(found)
