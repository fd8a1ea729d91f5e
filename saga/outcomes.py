"""What a forward call without a result came to: refused, done after all, or unknown."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError
from temporalio.exceptions import TimeoutError as ActivityTimeout

from countermand.saga.activities import HEARTBEAT_TIMEOUT, REFUSED, UNAVAILABLE
from countermand.saga.calls import call_probe
from countermand.saga.ledger import Step
from countermand.saga.types import CauseKind, Effect, Outcome, ProbeAnswer


async def find_outcome(step: Step, error: ActivityError, *, ran_for: timedelta) -> None:
    """Put the outcome of a call that failed into its row of the ledger; ``ran_for`` is how long its attempts took."""
    reason = error.cause
    if isinstance(reason, ApplicationError) and reason.type == REFUSED:
        step.fail(Outcome.REFUSED, CauseKind.REFUSED, reason.message)
        return
    if isinstance(reason, CancelledError):
        step.fail(Outcome.UNKNOWN, CauseKind.CANCELLED, "cancelled while it ran")
    elif isinstance(reason, ApplicationError) and reason.type == UNAVAILABLE:
        step.fail(Outcome.UNKNOWN, CauseKind.UNAVAILABLE, reason.message)
    else:
        step.fail(Outcome.UNKNOWN, CauseKind.UNKNOWN, str(reason or error))
    if step.tool.effect is Effect.READ:
        step.outcome = Outcome.REFUSED
    elif not step.stopped:
        # Long enough for an earlier attempt to have timed out: it may run still, whatever ended the last one.
        long = ran_for >= min(HEARTBEAT_TIMEOUT, step.tool.policy.start_to_close)
        await ask_probe(step, may_run=long or isinstance(reason, ActivityTimeout))


async def ask_probe(step: Step, *, may_run: bool) -> None:
    """Ask the probe about a call without a result.

    "Not landed" is final only when no attempt can still be running; where one can and the downstream does not
    fence it off (a tombstone, left by the undo), the longest run of an attempt is waited out first.
    """
    until = workflow.now() + step.tool.policy.start_to_close
    pause = timedelta(seconds=1)
    answer = await call_probe(step)
    while answer is not ProbeAnswer.LANDED and may_run and (step.irreversible or not step.tool.fenced):
        # The probe may take longer than that itself; then it is asked once more, at once.
        if (left := until - workflow.now()) > timedelta():
            await workflow.sleep(min(pause, left))
        pause *= 2
        answer = await call_probe(step)
        may_run = workflow.now() < until
    if answer is ProbeAnswer.LANDED:
        step.outcome, step.failure = Outcome.DONE, None
    elif answer is ProbeAnswer.NOT_LANDED and not may_run:
        step.outcome = Outcome.REFUSED
