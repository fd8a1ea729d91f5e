"""Resets: a workflow that an operator set back runs on as another run of the same id."""

from datetime import timedelta

from temporalio import activity, workflow

from countermand.saga.activities import HEARTBEAT_TIMEOUT, heartbeats
from countermand.saga.reading import all_steps
from countermand.saga.types import Compensation


def was_reset(point: str) -> bool:
    """Whether the workflow comes to this point for the first time, in a run that a reset made.

    Replay of what an earlier run recorded, or of this run elsewhere, must not decide it anew: the patch's marker is
    the record.
    """
    info = workflow.info()
    reset = info.run_id != info.original_execution_run_id
    return (reset or workflow.unsafe.is_replaying()) and workflow.patched(f"reset: {point}")


@activity.defn(name="undos_begun")
async def undos_begun(saga_id: str) -> tuple[int, ...]:
    """The numbers of a saga's steps whose undo was begun by any run of its workflow, or by one beside it.

    An undo that was begun counts, done or not: its attempt may be on its way still, and land later.
    """
    async with heartbeats():
        steps = await all_steps(activity.client(), saga_id)
    return tuple(step.no for step in steps if step.compensation is not Compensation.NONE)


async def undone_before_reset(saga_id: str) -> tuple[int, ...]:
    """``undos_begun``, asked by the saga's workflow; it waits for the answer as long as it takes."""
    return await workflow.execute_activity(
        undos_begun,
        saga_id,
        summary="what did the run before the reset undo?",
        start_to_close_timeout=timedelta(minutes=5),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
    )
