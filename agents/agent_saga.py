"""``AgentSaga``: one turn of a conversation, or one line of a batch, as one saga."""

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from pydantic import Field
from temporalio import activity, workflow
from temporalio.client import WorkflowFailureError
from temporalio.langgraph import graph

from countermand.agents.dry_run import PlanLine
from countermand.agents.graph import GRAPH
from countermand.agents.guard import Spent, Verdict
from countermand.agents.messages import Message, refusal, unanswered
from countermand.agents.turn import MAX_THOUGHTS, Turn, TurnInput
from countermand.agents.usage import Usage
from countermand.saga import SagaReport, SagaRolledBack, SagaState, transaction
from countermand.saga.activities import heartbeats
from countermand.saga.types import Frozen


class TurnResult(Frozen):
    """What a turn came to.

    ``messages`` follow on the customer's own; the next model call accepts them. ``verdicts`` are the guard's, in order;
    ``spent`` and ``tainted`` are for the session's next turn.
    """

    session: str | None
    turn: int
    saga: SagaReport
    verdicts: tuple[Verdict, ...] = ()
    usage: dict[str, Usage] = Field(default={}, description="By model.")
    spent: Spent = Spent()
    tainted: bool = False
    plan: tuple[PlanLine, ...] = Field(default=(), description="Of a dry run: what would be done.")
    messages: list[Message] = Field(min_length=1)

    @property
    def text(self) -> str:
        """What the customer is told."""
        return self.messages[-1].text or f"The transaction is {self.saga.state}."


@workflow.defn
class AgentSaga:
    """Agents choose the steps; the saga undoes them unless they commit. Always answers, a cancel included."""

    @workflow.run
    async def run(self, request: TurnInput) -> TurnResult:
        """Run the turn to a committed or a rolled-back end."""
        # Outside of the transaction: on a worker that lags, the plugin forgets a run's graphs when an earlier execution
        # of the run is evicted. Then this task is to be tried again, and no saga to be rolled back.
        compiled = graph(GRAPH).compile()
        messages: list[AnyMessage] = [HumanMessage(request.text)]
        turn: Turn | None = None
        try:
            async with transaction(request.options, session=request.session) as saga:
                turn = Turn(request, saga)
                steps = compiled.astream(
                    {"messages": messages, "active": request.team.entry.name},
                    context=turn,
                    stream_mode="values",
                    config={"recursion_limit": 4 * MAX_THOUGHTS},
                )
                async for state in steps:
                    messages = state["messages"]
                await saga.commit()
            report = saga.report()
        except SagaRolledBack as error:
            report = error.report
            messages += [refusal(call, "the transaction was rolled back") for call in unanswered(messages)]
            messages.append(AIMessage(_rolled_back(report)))
        if left := unanswered(messages):
            # It was stopped where there was no way back any more. A provider refuses a conversation with open calls.
            messages += [refusal(call, "the transaction was stopped, and stands") for call in left]
            messages.append(AIMessage("The order could not be stopped any more: what was done stands."))
        return TurnResult(
            session=request.session,
            turn=request.turn,
            saga=report,
            verdicts=tuple(turn.guard.verdicts) if turn else (),
            usage=turn.usage if turn else {},
            # What was undone is no order; what an undo that failed left standing is one.
            spent=turn.guard.ordered() if turn else request.spent,
            plan=tuple(turn.dry_run.plan) if turn else (),
            tainted=turn.guard.tainted if turn else request.tainted,
            messages=messages[1:],
        )


@activity.defn
async def result_of_turn(saga_id: str) -> TurnResult | None:
    """What a turn came to, waited for; None where its workflow was ended from outside."""
    async with heartbeats():
        try:
            return await activity.client().get_workflow_handle_for(AgentSaga.run, saga_id).result()
        except WorkflowFailureError:
            return None


def _rolled_back(report: SagaReport) -> str:
    """What happened, in words for the customer; written here, since the model may be what failed."""
    cause = report.cause.message.rstrip(".") if report.cause else "the order was not completed"
    if report.state is SagaState.NEEDS_ATTENTION:
        left = "; ".join(residual.message for residual in report.residuals)
        return f"Rolled back, but not wholly: {cause}. Still standing, and left to an operator: {left}."
    undone = sorted((step for step in report.steps if step.undo_no), key=lambda step: step.undo_no or 0)
    if not undone:
        return f"Rolled back: {cause}. Nothing had been done."
    names = ", ".join(f"{step.tool} (step {step.no})" for step in undone)
    return f"Rolled back: {cause}. Undone, in this order: {names}. Nothing stands."
