"""The worker: serves sagas, agents and tools from a task queue, and from those that are named after it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from countermand.agents.swarms import queue_of_swarms
from countermand.agents.think import queue_of_models
from countermand.queues import Queues
from countermand.saga.activities import HEARTBEAT_INTERVAL

SWARM_ACTIVITIES, SWARM_WORKFLOW_TASKS = 16, 4
"""What a worker does for swarms at once: calls wait, tasks compute. What is beyond waits in the swarms' queue,
and no chat behind it."""


@asynccontextmanager
async def serving(
    client: Client, *, task_queue: str, queues: Queues = "all", model_rate: float | None = None
) -> AsyncGenerator[None]:
    """Serve a task queue, that of its swarms, and those of the model calls of each.

    A swarm may not starve a chat, and no tool call waits behind a model's answer.

    Args:
        client: Connected with ``CountermandPlugin``.
        task_queue: The queue of chats; the others are named after it.
        queues: Those of chats, or of swarms: a process of their own keeps swarms from a chat's processor time.
        model_rate: How many times a second chats, and swarms, ask models at most, by all workers together; None sets
            no bound.
    """
    swarms = queue_of_swarms(task_queue)
    served: list[Worker] = []
    if queues in {"all", "chats"}:
        served += [build_worker(client, task_queue=task_queue), _models(client, task_queue, model_rate)]
    if queues in {"all", "swarms"}:
        bounded = build_worker(
            client, task_queue=swarms, activities=SWARM_ACTIVITIES, workflow_tasks=SWARM_WORKFLOW_TASKS
        )
        served += [bounded, _models(client, swarms, model_rate)]
    async with AsyncExitStack() as stack:
        for worker in served:
            await stack.enter_async_context(worker)
        yield


def _models(client: Client, task_queue: str, rate: float | None) -> Worker:
    return build_worker(client, task_queue=queue_of_models(task_queue), rate=rate)


def build_worker(
    client: Client,
    *,
    task_queue: str,
    activities: int | None = None,
    workflow_tasks: int | None = None,
    rate: float | None = None,
) -> Worker:
    """A worker with the time-outs that let another one take over within seconds.

    Args:
        client: Connected with ``CountermandPlugin``, which brings the workflows and activities.
        task_queue: The queue to serve.
        activities: So many at once; Temporal's own bound if None.
        workflow_tasks: So many at once; Temporal's own bound if None.
        rate: Activities a second that the server hands out on this queue, to all of its workers; no bound if None.
    """
    return Worker(
        client,
        task_queue=task_queue,
        max_concurrent_activities=activities,
        max_concurrent_workflow_tasks=workflow_tasks,
        max_task_queue_activities_per_second=rate,
        # An activity learns of its cancellation with a heartbeat: let heartbeats through as they come.
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        default_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        # How long a dead worker holds its workflows.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=3),
    )
