"""What comes between a verdict and its step: a person's approval, and a place in the tenant's day."""

from dataclasses import dataclass, field

from langchain_core.messages import ToolCall as ModelCall
from pydantic import BaseModel
from temporalio import workflow

from countermand.agents.guard import Guard, Judged
from countermand.agents.team import Agent, Team
from countermand.saga import Saga, ToolRefused
from countermand.saga.approvals import Answer
from countermand.saga.ledger import Step
from countermand.saga.tool import AnyTool
from countermand.saga.types import Compensation, Limit, Money, Outcome
from countermand.tools.limits import ReserveLimit, reserve_limit

_WAS = {Answer.REFUSED: "was refused", Answer.EXPIRED: "expired"}


@dataclass(frozen=True)
class Admitted:
    """A registered step. ``place`` is the step that counts it against the tenant's day, and runs before it."""

    step: Step
    judged: Judged
    place: Step | None = None

    @property
    def asks(self) -> bool:
        """Whether a person must agree first."""
        return self.judged.verdict.verdict == "needs_approval"

    @property
    def waits(self) -> bool:
        """Whether anything comes before the step itself."""
        return self.asks or self.place is not None

    def refuse(self, reason: str) -> None:
        """Record that the step was never run, nor what would have counted it."""
        self.step.refuse(reason)
        if self.place is not None and self.place.task is None:
            self.place.refuse(reason)


@dataclass
class Admission:
    """Registers the steps of one turn, and lets each pass when it may run."""

    team: Team
    saga: Saga
    guard: Guard
    tenant: str
    places: list[tuple[Step, Step]] = field(default_factory=list)

    def register(self, agent: Agent, judged: Judged, tool: AnyTool, args: BaseModel) -> Admitted:
        """Number a call that the guard let become a step, and before it what counts it against the day.

        Raises:
            SagaFailed: The saga takes no steps any more.
        """
        place = self._place(judged.price) if judged.price else None
        asks = judged.verdict.verdict == "needs_approval"
        step = self.saga.register(tool, args, agent=agent.name, rule=judged.verdict.rule, asks=asks)
        if judged.price is not None:
            self.guard.prices[step.no] = judged.price
        if place is not None:
            self.places.append((place, step))
        return Admitted(step, judged, place)

    async def let_pass(self, agent: Agent, call: ModelCall, admitted: Admitted) -> None:
        """Have a step that waits approved and counted, and launch it; its siblings run meanwhile.

        Raises:
            ToolRefused: It was not approved, or the tenant's day is full; it was not run.
            SagaFailed: The saga was stopped meanwhile.
        """
        if not admitted.waits:
            return
        try:
            if admitted.asks:
                await self._approved(admitted)
            if admitted.place is not None:
                await self._counted(agent, call, admitted, admitted.place)
        except ToolRefused as error:
            admitted.refuse(str(error))
            raise
        self.saga.launch(admitted.step)

    def _place(self, price: Money) -> Step | None:
        """The step that counts an order against the tenant's day, where there is a limit.

        The place of an order that was refused, a declined card's for instance, is the next one's.
        """
        limit = self.team.limits.day
        if limit == Limit():
            return None
        args = ReserveLimit(tenant=self.tenant, day=workflow.now().date(), price=price, limit=limit)
        for number, (place, order) in enumerate(self.places):
            held = place.outcome is Outcome.DONE and place.compensation is Compensation.NONE
            unused = held and order.outcome is Outcome.REFUSED
            if unused and place.args == args.model_dump(mode="json"):
                del self.places[number]
                return place
        return self.saga.register(reserve_limit, args, rule="limit.day")

    async def _approved(self, admitted: Admitted) -> None:
        step, rule = admitted.step, admitted.judged.verdict.rule
        answered = await self.saga.approvals.ask(
            step,
            rule=rule,
            cost=admitted.judged.price,
            within=self.team.approval_within,
            over=lambda: self.saga.stopping,
        )
        granted = answered.answer is Answer.GRANTED
        by = f"operator:{answered.by}" if answered.by else "guard"
        self.saga.journal.approved(step, granted=granted, by=by, reason=answered.reason)
        if granted:
            step.call = step.call.model_copy(update={"rule": f"{rule}.granted"})
        elif answered.answer in _WAS:
            why = f": {answered.reason}" if answered.reason else ""
            raise ToolRefused(f"not run: the approval {_WAS[answered.answer]}{why}")

    async def _counted(self, agent: Agent, call: ModelCall, admitted: Admitted, place: Step) -> None:
        if place.task is None:
            self.saga.launch(place)
        try:
            await self.saga.finish(place)
        except ToolRefused as error:
            reason = f"not run: {str(error).removeprefix('reserve_limit: ')}"
            self.guard.refuse(agent, call, admitted.step, "limit.day", reason)
            raise ToolRefused(reason) from error
