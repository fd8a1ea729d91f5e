"""Resets: a workflow that an operator set back runs on as another run of the same id."""

from temporalio import workflow


def was_reset(point: str) -> bool:
    """Whether the workflow comes to this point for the first time, in a run that a reset made.

    Replay of what an earlier run recorded, or of this run elsewhere, must not decide it anew: the patch's marker is
    the record.
    """
    info = workflow.info()
    reset = info.run_id != info.original_execution_run_id
    return (reset or workflow.unsafe.is_replaying()) and workflow.patched(f"reset: {point}")
