"""The three kinds of activity that a step schedules: its forward call, its probe, its undo."""

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from countermand.saga.activities import (
    HEARTBEAT_TIMEOUT,
    PriceInput,
    ProbeOutput,
    StepInput,
    UndoInput,
    price_name,
    probe_name,
)
from countermand.saga.errors import ToolRefused
from countermand.saga.history import STEP
from countermand.saga.ledger import Step
from countermand.saga.tool import PROBE_POLICY, AnyTool
from countermand.saga.types import CallPolicy, JsonObject, Money, ProbeAnswer, Undone

_WAIT = workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED
"""A cancelled call is waited for, since it may end as done all the same."""


async def call_forward(step: Step, *, max_attempts: int) -> JsonObject:
    """Run the forward call; its activity id is ``step:<n>``. Raises ``ActivityError``."""
    policy = step.tool.policy
    return await workflow.execute_activity(
        step.tool.name,
        StepInput(call=step.call, args=step.args),
        # Not JsonObject: each workflow has a converter of its own, which would take 1 ms to learn that recursive type.
        result_type=dict,
        activity_id=f"{STEP}{step.no}",
        summary=f"step {step.no}" + (f", chosen by {step.call.agent}" if step.call.agent else ""),
        start_to_close_timeout=policy.start_to_close,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=_retries(policy, policy.max_attempts or max_attempts),
        cancellation_type=_WAIT,
    )


async def call_probe(step: Step) -> ProbeAnswer:
    """Ask whether the forward call landed, and keep its result if it did; a probe that fails knows nothing."""
    try:
        output = await workflow.execute_activity(
            probe_name(step.tool),
            StepInput(call=step.call, args=step.args),
            result_type=ProbeOutput,
            summary=f"did step {step.no} land?",
            start_to_close_timeout=PROBE_POLICY.start_to_close,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_retries(PROBE_POLICY, PROBE_POLICY.max_attempts),
        )
    except ActivityError:
        return ProbeAnswer.UNKNOWN
    if output.answer is ProbeAnswer.LANDED:
        step.result = output.result
    return output.answer


async def call_price(tool: AnyTool, args: JsonObject) -> Money | None:
    """What a call would cost, or None where the tool has no price.

    Raises:
        ToolRefused: It can't be told.
    """
    if tool.price is None:
        return None
    try:
        return await workflow.execute_activity(
            price_name(tool),
            PriceInput(args=args),
            result_type=Money,
            summary=f"what does {tool.name} cost?",
            start_to_close_timeout=PROBE_POLICY.start_to_close,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_retries(PROBE_POLICY, PROBE_POLICY.max_attempts),
        )
    except ActivityError as error:
        reason = error.cause.message if isinstance(error.cause, ApplicationError) else str(error.cause or error)
        raise ToolRefused(f"what it costs can't be told: {reason}") from error


async def call_undo(step: Step, *, again: int = 0) -> Undone:
    """Run the compensation; its activity id is ``step:<n>:undo``, its key ends so too. Raises ``ActivityError``."""
    policy = step.tool.undo_policy
    call = step.call.model_copy(update={"key": step.undo_key})
    return await workflow.execute_activity(
        step.tool.undo_name or step.tool.name,
        UndoInput(tool=step.tool.name, call=call, args=step.args, result=step.result),
        result_type=Undone,
        activity_id=f"{STEP}{step.no}:undo" + (f":{again}" if again else ""),
        summary=f"undo of step {step.no}, {step.tool.name}",
        start_to_close_timeout=policy.start_to_close,
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=_retries(policy, policy.max_attempts),
        cancellation_type=_WAIT,
    )


def _retries(policy: CallPolicy, max_attempts: int | None) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=policy.initial_interval,
        maximum_interval=policy.maximum_interval,
        maximum_attempts=max_attempts or 0,
    )
