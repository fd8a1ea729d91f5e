"""One turn: what the agents decided is judged, run as steps of the saga, and told back to them."""

import asyncio
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as ModelCall
from pydantic import Field
from temporalio import workflow
from temporalio.exceptions import ActivityError

from countermand.agents.builtin import TRANSFER, Abort, HandedOver, Transfer, UndoTo, transfers
from countermand.agents.guard import Guard, Judged, Spent
from countermand.agents.messages import answer, as_json, refusal
from countermand.agents.team import REMINDER, Agent, Team
from countermand.agents.think import ThinkRequest, Thought, think
from countermand.cache.types import ContextRef
from countermand.saga import Cause, CauseKind, Saga, SagaFailed, SagaOptions, SagaState, ToolRefused, ToolUnavailable
from countermand.saga.approvals import Answer
from countermand.saga.ledger import Step
from countermand.saga.types import ID_PATTERN, Frozen, Limit, Money, Outcome
from countermand.tools.limits import ReserveLimit, reserve_limit

MAX_THOUGHTS = 40
MAX_REFUSALS = 6
"""How often a turn may think, how many refusals it may collect."""


class TurnInput(Frozen):
    """What one turn is: the customer's words, and what they follow on.

    ``spent`` and ``tainted`` are what the session's earlier turns ordered, and whether text that others wrote was read
    in them.
    """

    text: str
    model: str
    team: Team
    session: str | None = None
    tenant: str = Field(default="default", pattern=ID_PATTERN)
    turn: int = Field(default=1, ge=1)
    context: ContextRef | None = None
    confirmed: bool = False
    spent: Spent = Spent()
    tainted: bool = False
    options: SagaOptions = SagaOptions()


class Usage(Frozen):
    """What a model was used for: requests, and tokens where the provider tells them."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass
class Planned:
    """A call of a model message, judged: refused already, or ready to run.

    ``place`` is the step that counts it against the tenant's day, to be run before its own.
    """

    call: ModelCall
    judged: Judged
    step: Step | None = None
    place: Step | None = None

    @property
    def waits(self) -> bool:
        """Whether something comes before the step itself."""
        return self.judged.verdict.verdict == "needs_approval" or self.place is not None


@dataclass
class Turn:
    """The turn's state beside the graph's: its saga, its guard, and how much patience is left."""

    request: TurnInput
    saga: Saga
    thoughts: int = 0
    refusals: int = 0
    reminded: bool = False
    malformed: dict[str, str] = field(default_factory=dict)
    usage: dict[str, Usage] = field(default_factory=dict)
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        self.guard = Guard(self.request.team, self.saga, self.request.spent, self.request.tainted)
        self._places: list[tuple[Step, Step]] = []

    async def think(self, name: str, delta: list[AnyMessage]) -> AIMessage:
        """Let an agent decide what to do next.

        Raises:
            SagaFailed: The model could not be asked, or the turn thought too often.
        """
        self.thoughts += 1
        if self.thoughts > MAX_THOUGHTS:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped after {MAX_THOUGHTS} model calls")
        agent = self.request.team.agent(name)
        request = ThinkRequest(
            agent=agent,
            transfers=transfers(agent, self.request.team),
            model=agent.model or self.request.model,
            context=self.request.context,
            delta=delta,
            confirmed=self.request.confirmed,
        )
        try:
            thought: Thought = await think(request)
        except ActivityError as error:
            raise _failed(CauseKind.MODEL, f"the model could not be asked: {error.cause or error}") from error
        self.malformed = thought.malformed
        self._count(request.model, thought.message)
        self.saga.journal.decided(
            agent.name, model=request.model, prompt=thought.prompt, reply=as_json([thought.message])[0]
        )
        return thought.message

    def _count(self, model: str, message: AIMessage) -> None:
        told = message.usage_metadata
        so_far = self.usage.get(model, Usage())
        self.usage[model] = Usage(
            requests=so_far.requests + 1,
            input_tokens=so_far.input_tokens + (told["input_tokens"] if told else 0),
            output_tokens=so_far.output_tokens + (told["output_tokens"] if told else 0),
        )

    def reminder(self) -> HumanMessage | None:
        """What to tell a model that ends its turn while uncommitted effects stand; said once.

        Raises:
            SagaFailed: It was told before.
        """
        if self.saga.state is not SagaState.OPEN or not any(step.may_stand for step in self.saga.steps):
            return None
        if self.reminded:
            raise _failed(CauseKind.NOT_COMMITTED, "the agent ended its turn without committing what it had done")
        self.reminded = True
        return HumanMessage(REMINDER)

    async def run_calls(self, name: str, message: AIMessage) -> tuple[list[ToolMessage], str]:
        """Run a model message's calls: all are judged and numbered before the first runs.

        Answers what each came to, and whose turn it is then.

        Raises:
            SagaFailed: The saga can only be rolled back now.
        """
        agent = self.request.team.agent(name)
        planned = [await self._plan(agent, call, place) for place, call in enumerate(message.tool_calls)]
        answers: list[ToolMessage] = []
        for group in _groups(planned):
            if self.saga.state is SagaState.COMMITTED:
                answers += [_skip(one, "the transaction is committed; the next turn starts a new one") for one in group]
            elif any(told.status == "error" for told in answers):
                answers += [_skip(one, "an earlier call of the same message was refused") for one in group]
            elif name != agent.name:
                answers += [_skip(one, f"the conversation was handed over to {name}") for one in group]
            else:
                answers += await self._run_group(agent, group)
                name = next((_transferred(one, name) for one in group), name)
        self.refusals += sum(one.status == "error" for one in answers)
        if self.refusals >= MAX_REFUSALS:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped after {self.refusals} refused calls")
        return answers, name

    async def _plan(self, agent: Agent, call: ModelCall, place: int) -> Planned:
        """Judge a call; number it if it is a step, and before it what counts it against the tenant's day."""
        judged = await self.guard.judge(agent, call, place=place, malformed=self.malformed.get(call["id"] or ""))
        verdict = judged.verdict
        if verdict.verdict == "refused" or judged.tool is None or judged.args is None:
            return Planned(call, judged)
        counted = self._place(judged.price) if judged.price else None
        asks = verdict.verdict == "needs_approval"
        step = self.saga.register(judged.tool, judged.args, agent=agent.name, rule=verdict.rule, asks=asks)
        if judged.price is not None:
            self.guard.prices[step.no] = judged.price
        if counted is not None:
            self._places.append((counted, step))
        return Planned(call, judged, step=step, place=counted)

    def _place(self, price: Money) -> Step | None:
        """The step that counts an order against the tenant's day, where there is a limit.

        The place of an order that was refused, a declined card's for instance, is the next one's.
        """
        limit = self.request.team.limits.day
        if limit == Limit():
            return None
        args = ReserveLimit(tenant=self.request.tenant, day=workflow.now().date(), price=price, limit=limit)
        for number, (place, order) in enumerate(self._places):
            unused = place.outcome is Outcome.DONE and order.outcome is Outcome.REFUSED
            if unused and place.args == args.model_dump(mode="json"):
                del self._places[number]
                return place
        return self.saga.register(reserve_limit, args, rule="limit.day")

    async def _run_group(self, agent: Agent, group: list[Planned]) -> list[ToolMessage]:
        for one in group:
            if one.step is not None and not one.waits:
                self.saga.launch(one.step)
        return list(await asyncio.gather(*(self._finish(agent, one) for one in group)))

    async def _finish(self, agent: Agent, one: Planned) -> ToolMessage:
        if one.judged.verdict.verdict == "refused":
            return refusal(one.call, one.judged.verdict.reason)
        try:
            if one.step is None:
                return await self._builtin(one)
            if one.waits:
                await self._let_pass(agent, one, one.step)
            result = await self.saga.finish(one.step)
        except (ToolRefused, ToolUnavailable) as error:
            return refusal(one.call, str(error))
        self.guard.read([one.step.tool])
        return answer(one.call, result)

    async def _let_pass(self, agent: Agent, one: Planned, step: Step) -> None:
        """Have a step approved and counted, and launch it; siblings run meanwhile.

        Raises:
            ToolRefused: It was not approved, or the tenant's day is full; it was not run.
        """
        try:
            if one.judged.verdict.verdict == "needs_approval":
                await self._approved(step, one.judged)
            if one.place is not None:
                await self._counted(agent, one, one.place)
        except ToolRefused as error:
            step.refuse(str(error))
            raise
        self.saga.launch(step)

    async def _approved(self, step: Step, judged: Judged) -> None:
        answered = await self.saga.approvals.ask(
            step,
            rule=judged.verdict.rule,
            cost=judged.price,
            within=self.request.team.approval_within,
            over=lambda: self.saga.stopping,
        )
        by = f"operator:{answered.by}" if answered.by else "guard"
        granted = answered.answer is Answer.GRANTED
        self.saga.journal.approved(step, granted=granted, by=by, reason=answered.reason)
        if granted:
            step.call = step.call.model_copy(update={"rule": f"{judged.verdict.rule}.granted"})
        elif answered.answer is not Answer.WITHDRAWN:
            why = f": {answered.reason}" if answered.reason else ""
            raise ToolRefused(f"not run: the approval {answered.answer}{why}")

    async def _counted(self, agent: Agent, one: Planned, place: Step) -> None:
        if place.task is None:
            self.saga.launch(place)
        try:
            await self.saga.finish(place)
        except ToolRefused as error:
            reason = f"not run: {str(error).removeprefix('reserve_limit: ')}"
            self.guard.record(agent, one.call, "refused", "limit.day", reason)
            raise ToolRefused(reason) from error

    async def _builtin(self, one: Planned) -> ToolMessage:
        match one.judged.args:
            case Abort(reason=reason):
                raise _failed(CauseKind.ABORTED, reason)
            case UndoTo(step_no=step_no):
                await self.saga.undo_to(step_no)
            case Transfer():
                return answer(one.call, HandedOver(agent=_transferred(one, "")))
            case _:
                await self.saga.commit()
        return answer(one.call, self.saga.report())


def _transferred(one: Planned, name: str) -> str:
    """Whom a call hands the conversation over to; ``name``, if to nobody."""
    is_transfer = isinstance(one.judged.args, Transfer) and one.judged.tool is None
    return one.call["name"].removeprefix(TRANSFER) if is_transfer else name


def _skip(one: Planned, why: str) -> ToolMessage:
    reason = f"not run, since {why}"
    if one.step is not None:
        one.step.refuse(reason)
    return refusal(one.call, reason)


def _groups(planned: list[Planned]) -> list[list[Planned]]:
    """Calls in their order; neighbours whose tools allow it run side by side."""
    groups: list[list[Planned]] = []
    for one in planned:
        if groups and _parallel(one) and _parallel(groups[-1][0]) and not _waits_for(one, groups[-1]):
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _parallel(one: Planned) -> bool:
    return one.step is not None and one.step.tool.parallel


def _waits_for(one: Planned, group: list[Planned]) -> bool:
    after = one.step.tool.after if one.step is not None else ()
    return any(other.call["name"] in after for other in group)


def _failed(kind: CauseKind, message: str) -> SagaFailed:
    return SagaFailed(Cause(kind=kind, message=message))
