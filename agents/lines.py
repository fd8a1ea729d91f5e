"""What a line of a batch came to: its saga's end, and the money that moved."""

from collections import Counter, deque
from datetime import timedelta

from langchain_core.messages import ToolMessage
from pydantic import BaseModel, Field
from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.saga import SagaReport, SagaState
from countermand.saga.types import Compensation, Frozen, Money, Outcome

TAKES, HOLDS = "capture_payment", "authorize_payment"
"""The tool that takes money, and the one whose result says how much that will be."""

Amounts = dict[str, int]
"""Minor units by currency."""


class LineEnd(Frozen):
    """How a line's saga ended; ``taken`` counts what was given back since, too."""

    state: SagaState
    taken: Amounts = Field(default={})
    returned: Amounts = Field(default={})


LOST = LineEnd(state=SagaState.NEEDS_ATTENTION)
"""The end of a line whose workflow was ended from outside: recovery undoes it, and the report asks what came of it."""


class _Total(BaseModel):
    total: Money


def end_of(result: TurnResult) -> LineEnd:
    """How a line ended, from its saga's result."""
    taken, returned = moved(result)
    return LineEnd(state=result.saga.state, taken=taken, returned=returned)


def moved(result: TurnResult) -> tuple[Amounts, Amounts]:
    """What a saga took, and what of it was given back.

    A capture whose answer was lost took what was held if its undo found something to give back. Where the refund of a
    capture stayed failed, the undo of its authorization may have given it back all the same.
    """
    told = {name: deque(_totals(result, name)) for name in (TAKES, HOLDS)}
    held = told[HOLDS][-1] if told[HOLDS] else None
    hold_undone = any(step.tool == HOLDS and step.compensation is Compensation.DONE for step in result.saga.steps)
    taken, returned = Counter[str](), Counter[str]()
    for step in result.saga.steps:
        if step.tool != TAKES:
            continue
        undone = step.compensation is Compensation.DONE
        answered = step.outcome is Outcome.DONE
        total = told[TAKES].popleft() if answered and told[TAKES] else held
        if total is None or not (answered or undone):
            continue
        taken[total.currency] += total.amount
        if undone or (step.compensation is Compensation.FAILED and hold_undone):
            returned[total.currency] += total.amount
    return dict(taken), dict(returned)


def _totals(result: TurnResult, tool: str) -> list[Money]:
    answers = [one for one in result.messages if isinstance(one, ToolMessage) and one.name == tool]
    return [_Total.model_validate_json(one.text).total for one in answers if one.status == "success"]


@activity.defn
async def read_end(saga_id: str) -> LineEnd:
    """How a line ended that another run of the swarm started; asked again, without holding a slot, while it runs."""
    handle = activity.client().get_workflow_handle_for(AgentSaga.run, saga_id)
    if (await handle.describe()).close_time is None:
        raise ApplicationError(f"{saga_id} still runs", next_retry_delay=timedelta(milliseconds=500))
    try:
        return end_of(await handle.result())
    except WorkflowFailureError:
        return LOST


async def awaited_end(saga_id: str) -> LineEnd:
    """The end of a line that another run of the swarm started, from within a workflow."""
    return await workflow.execute_activity(
        read_end,
        saga_id,
        start_to_close_timeout=timedelta(seconds=10),
        retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=5)),
    )


class LineReport(Frozen):
    """A line that ended, as ``countermand swarm run --json`` tells it; ``saga`` is the same as ``chat``'s."""

    number: int
    id: str
    text: str
    saga: SagaReport
