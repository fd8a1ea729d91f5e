"""Resets: a workflow that an operator set back runs on as another run of the same id."""

from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import WorkflowExecutionStatus

from countermand.saga.activities import HEARTBEAT_TIMEOUT, heartbeats
from countermand.saga.history import RecordedStep
from countermand.saga.ledger import Step
from countermand.saga.names import RECOVER
from countermand.saga.reading import all_steps, described
from countermand.saga.types import Compensation


def was_reset(point: str) -> bool:
    """Whether the workflow comes to this point for the first time, in a run that a reset made.

    Replay of what an earlier run recorded, or of this run elsewhere, must not decide it anew: the patch's marker is
    the record.
    """
    info = workflow.info()
    reset = info.run_id != info.original_execution_run_id
    return (reset or workflow.unsafe.is_replaying()) and workflow.patched(f"reset: {point}")


@activity.defn(name="steps_of_all_runs")
async def steps_of_all_runs(saga_id: str) -> tuple[RecordedStep, ...]:
    """A saga's steps, as every run of its workflow and of those beside it tells them.

    An undo that was begun counts, done or not: its attempt may be on its way still, and land later. A recovery that
    runs is about to begin them all.
    """
    async with heartbeats():
        steps = await all_steps(activity.client(), saga_id)
        recovery = await described(activity.client(), f"{RECOVER}{saga_id}")
    if recovery is None or recovery.status is not WorkflowExecutionStatus.RUNNING:
        return tuple(steps)
    return tuple(
        step.model_copy(update={"compensation": Compensation.PENDING})
        if step.compensation is Compensation.NONE
        else step
        for step in steps
    )


async def recorded_by_all_runs(saga_id: str) -> list[Step]:
    """``steps_of_all_runs``, asked by the saga's workflow; it waits for the answer as long as it takes."""
    recorded = await workflow.execute_activity(
        steps_of_all_runs,
        saga_id,
        summary="what did the runs before the reset do?",
        start_to_close_timeout=timedelta(minutes=5),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
    )
    # Their undos are counted anew by the run that goes on.
    return [Step.of(step.model_copy(update={"undo_no": None})) for step in recorded]
