"""Resetting a workflow to one of its workflow tasks, as an operator does."""

import uuid

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client


async def reset_points(client: Client, workflow_id: str) -> tuple[list[int], str]:
    """The events that a workflow's newest run can be reset to, and that run's id."""
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    done = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    return [event.event_id for event in history.events if event.event_type == done], history.run_id


async def reset(client: Client, workflow_id: str, run_id: str, event_id: int) -> str:
    """Reset a run of a workflow; answers the new run's id."""
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id, run_id=run_id),
            reason="tried by a test",
            workflow_task_finish_event_id=event_id,
            request_id=str(uuid.uuid4()),
        )
    )
    return answer.run_id
