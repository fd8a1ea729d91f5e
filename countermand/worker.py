"""The worker: serves sagas, agents and tools from one task queue."""

from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from countermand.saga.activities import HEARTBEAT_INTERVAL


def build_worker(client: Client, *, task_queue: str) -> Worker:
    """A worker with the time-outs that let another one take over within seconds.

    Args:
        client: Connected with ``CountermandPlugin``, which brings the workflows and activities.
        task_queue: The queue to serve.
    """
    return Worker(
        client,
        task_queue=task_queue,
        # An activity learns of its cancellation with a heartbeat: let heartbeats through as they come.
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        default_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        # How long a dead worker holds its workflows.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        graceful_shutdown_timeout=timedelta(seconds=3),
    )
