"""The reference article's workflow as one writes it with temporalio alone."""

from collections.abc import Awaitable, Callable

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, ApplicationErrorCategory

with workflow.unsafe.imports_passed_through():
    from article import Made, give_back, pay, provision, route, take_away, terminate
    from pydantic import BaseModel

    from countermand.saga.errors import ToolRefused
    from countermand.saga.tool import FORWARD_POLICY, UNDO_POLICY
    from countermand.saga.types import CallPolicy


class Step(BaseModel):
    """What a forward activity gets."""

    key: str
    order: str


class Undo(BaseModel):
    """What a compensation gets."""

    key: str
    undo_key: str


class Outcome(BaseModel):
    """What the workflow answers."""

    status: str
    error: str = ""
    compensations_executed: int = 0


@activity.defn
async def process_payment(step: Step) -> Made:
    """Forward step 1."""
    return await pay(step.key, step.order)


@activity.defn
async def refund_payment(undo: Undo) -> None:
    """Its compensation."""
    await give_back(undo.key, undo.undo_key)


@activity.defn
async def provision_server(step: Step) -> Made:
    """Forward step 2."""
    return await provision(step.key, step.order)


@activity.defn
async def terminate_server(undo: Undo) -> None:
    """Its compensation."""
    await terminate(undo.key, undo.undo_key)


@activity.defn
async def update_dns(step: Step) -> Made:
    """Forward step 3, refused for good."""
    try:
        return await route(step.key, step.order)
    except ToolRefused as error:
        # As in a saga, so that neither pays for the worker's log.
        raise ApplicationError(
            str(error), type="Refused", non_retryable=True, category=ApplicationErrorCategory.BENIGN
        ) from None


@activity.defn
async def remove_dns(undo: Undo) -> None:
    """Its compensation."""
    await take_away(undo.key, undo.undo_key)


ACTIVITIES = [process_payment, refund_payment, provision_server, terminate_server, update_dns, remove_dns]


def _retries(policy: CallPolicy, max_attempts: int) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=policy.initial_interval,
        maximum_interval=policy.maximum_interval,
        maximum_attempts=policy.max_attempts or max_attempts,
    )


@workflow.defn
class PlainArticle:
    """Three steps, and a list of what would undo them."""

    @workflow.run
    async def run(self, order: str) -> Outcome:
        """Place the order."""
        saga = workflow.info().workflow_id
        undos: list[tuple[int, Callable[[Undo], Awaitable[None]]]] = []
        forward, backward = FORWARD_POLICY, UNDO_POLICY
        try:
            for no, (step, undo) in enumerate(
                ((process_payment, refund_payment), (provision_server, terminate_server), (update_dns, remove_dns)),
                start=1,
            ):
                await workflow.execute_activity(
                    step,
                    Step(key=f"{saga}:{no}", order=order),
                    start_to_close_timeout=forward.start_to_close,
                    retry_policy=_retries(forward, 3),
                )
                undos.append((no, undo))
        except ActivityError as error:
            for no, undo in reversed(undos):
                await workflow.execute_activity(
                    undo,
                    Undo(key=f"{saga}:{no}", undo_key=f"{saga}:{no}:undo"),
                    start_to_close_timeout=backward.start_to_close,
                    retry_policy=_retries(backward, 5),
                )
            return Outcome(status="rolled_back", error=str(error.cause), compensations_executed=len(undos))
        return Outcome(status="completed")
