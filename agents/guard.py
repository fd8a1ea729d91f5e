"""The guard: judges every call of a model before it becomes a step, in workflow code. Model output is untrusted."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from langchain_core.messages import ToolCall as ModelCall
from pydantic import BaseModel, ValidationError

from countermand.agents.builtin import BUILTINS, TRANSFER, builtin_args, transfers
from countermand.agents.messages import complaint
from countermand.agents.team import Agent, Team, TeamLimits
from countermand.saga import Saga, SagaState, ToolRefused
from countermand.saga.calls import call_price
from countermand.saga.journal import safe_digest
from countermand.saga.ledger import Step
from countermand.saga.tool import AnyTool, declared
from countermand.saga.types import Compensation, Effect, Frozen, Limit, Money, Outcome

MAX_CALLS = 16
"""How many calls one message may hold; of a message with more, none is run."""


class Spent(Frozen):
    """The orders that stand: how many, and what they cost."""

    orders: tuple[Money, ...] = ()


class Verdict(Frozen):
    """What the guard decided about one call, and by which rule."""

    agent: str
    tool: str
    args: str
    verdict: Literal["allowed", "refused", "needs_approval"]
    rule: str
    reason: str = ""


@dataclass(frozen=True)
class Judged:
    """A verdict, with what the call came to: a step's tool or a built-in's arguments, validated."""

    verdict: Verdict
    tool: AnyTool | None = None
    args: BaseModel | None = None
    price: Money | None = None


@dataclass
class Guard:
    """Judges the calls of one turn.

    Attributes:
        team: Whose rules hold.
        saga: What the limits of one saga are counted in.
        spent: What the session's earlier turns ordered.
        tainted: Whether the agents have read text that others wrote.
        verdicts: Every verdict, in order.
        prices: What the priced steps cost, by step number.
    """

    team: Team
    saga: Saga
    spent: Spent
    tainted: bool
    verdicts: list[Verdict] = field(default_factory=list)
    prices: dict[int, Money] = field(default_factory=dict)

    def overdone(self, agent: Agent, calls: Iterable[ModelCall]) -> frozenset[str]:
        """The tools that a message calls more often than its agent may in an order."""
        asked = Counter(call["name"] for call in calls)
        bounds = {name: limit.count for name, limit in agent.limits.items() if limit.count is not None}
        return frozenset(name for name, bound in bounds.items() if len(self._mine(agent, name)) + asked[name] > bound)

    async def judge(
        self, agent: Agent, call: ModelCall, *, beside: int, overdone: frozenset[str], malformed: str | None
    ) -> Judged:
        """Judge a call by its agent's tools, its form, the limits, taint and the approval policy, in this order.

        Args:
            agent: Who calls.
            call: The call as the model made it.
            beside: How many calls its message holds, this one included.
            overdone: What ``overdone`` says of its message: which of these calls is meant can't be told.
            malformed: Why its arguments are no JSON, if they are none.
        """
        tool = declared().get(call["name"]) if call["name"] in agent.tools else None
        args: BaseModel | None = None
        price: Money | None = None
        try:
            self._check_form(agent, call, tool, beside=beside, malformed=malformed)
            args = _validated(tool.args if tool else builtin_args(call["name"], agent), call)
            if tool is None:
                decided, rule, reason = "allowed", "builtin", ""
            else:
                price = await self._check_limits(agent, tool, args, overdone)
                rule, reason = self._asks(tool, price)
                decided = "needs_approval" if reason else "allowed"
        except _Refused as refused:
            decided, rule, reason = "refused", refused.rule, str(refused)
        verdict = self._record(agent, call, decided, rule, reason)
        if tool is None or decided == "refused":
            self._tell(verdict)
        return Judged(verdict, tool, args, price)

    def refuse(self, agent: Agent, call: ModelCall, step: Step, rule: str, reason: str) -> None:
        """A call that was to become a step is refused after all."""
        self._tell(self._record(agent, call, "refused", rule, reason), step_no=step.no)

    def _tell(self, verdict: Verdict, step_no: int | None = None) -> None:
        """Tell the journal of a verdict that no step brings there."""
        known = {*declared(), *BUILTINS, *(f"{TRANSFER}{agent.name}" for agent in self.team.agents)}
        tool = verdict.tool if verdict.tool in known else ""
        decided = verdict.verdict
        self.saga.journal.judged(tool, verdict.args, rule=verdict.rule, verdict=decided, step_no=step_no)

    def _record(
        self,
        agent: Agent,
        call: ModelCall,
        decided: Literal["allowed", "refused", "needs_approval"],
        rule: str,
        reason: str,
    ) -> Verdict:
        """Keep a verdict."""
        digest = safe_digest(call["args"])
        verdict = Verdict(
            agent=agent.name, tool=call["name"][:80], args=digest, verdict=decided, rule=rule, reason=reason
        )
        self.verdicts.append(verdict)
        return verdict

    def read(self, tools: Iterable[AnyTool]) -> None:
        """The agents have read these tools' results."""
        self.tainted = self.tainted or any(tool.outside for tool in tools)

    def ordered(self) -> Spent:
        """The session's orders so far, with those of this saga that stand."""
        return Spent(orders=(*self.spent.orders, *self._standing()))

    def _check_form(
        self, agent: Agent, call: ModelCall, tool: AnyTool | None, *, beside: int, malformed: str | None
    ) -> None:
        if beside > MAX_CALLS:
            raise _Refused("bound", f"not run: a message may hold {MAX_CALLS} calls, and none of more is run")
        if malformed is not None:
            raise _Refused("json", f"not run: the arguments are not valid JSON: {malformed}")
        if self.saga.state is SagaState.COMMITTED:
            raise _Refused("committed", "not run: this transaction is committed; the next turn starts a new one")
        if tool is None and builtin_args(call["name"], agent) is None:
            offered = ", ".join((*agent.tools, *BUILTINS, *transfers(agent, self.team)))
            raise _Refused("allowlist", f"not run: there is no tool {call['name'][:80]!r} here; there are {offered}")

    async def _check_limits(
        self, agent: Agent, tool: AnyTool, args: BaseModel, overdone: frozenset[str]
    ) -> Money | None:
        """Hold a call against the limits; answers what it costs, where that matters."""
        if tool.name in overdone:
            may = f"{agent.name} may call {tool.name} {agent.limits[tool.name].count} times in an order"
            raise _Refused("limit.tool", f"not run: {may}, and of a message that asks for more none is run")
        if tool.price is None:
            return None
        own, limits = agent.limits.get(tool.name, Limit()), self.team.limits
        bounded = own.money is not None or limits != TeamLimits()
        if not bounded and not self._asks(tool, None)[1] and self._above(tool) is None:
            return None
        try:
            price = await call_price(tool, args.model_dump(mode="json"))
        except ToolRefused as error:
            raise _Refused("price", f"not run: {error}") from error
        if price is not None:
            mine = [self.prices[step.no] for step in self._mine(agent, tool.name) if step.no in self.prices]
            _hold("limit.tool", Limit(money=own.money), mine, price)
            _hold("limit.saga", limits.saga, self._standing(), price)
            _hold("limit.session", limits.session, [*self.spent.orders, *self._standing()], price)
        return price

    def _mine(self, agent: Agent, tool: str) -> list[Step]:
        """An agent's calls to a tool in this saga, those that count."""
        whose = (tool, agent.name)
        return [step for step in self.saga.steps if (step.tool.name, step.call.agent) == whose and _counts(step)]

    def _standing(self) -> list[Money]:
        return [self.prices[step.no] for step in self.saga.steps if step.no in self.prices and _counts(step)]

    def _asks(self, tool: AnyTool, price: Money | None) -> tuple[str, str]:
        """The rule that decides whether a person must agree, and why it says so; no reason, no approval."""
        policy = self.team.approvals.get(tool.name, tool.approval)
        above = self._above(tool)
        if self.tainted and tool.effect is not Effect.READ:
            return "taint", f"{tool.name} follows on text that others wrote"
        if policy == "always" or (policy == "irreversible" and tool.effect is Effect.IRREVERSIBLE):
            return f"approval.{policy}", f"{tool.name} needs an approval"
        if above is not None and price is not None and price.amount > above:
            return "approval.above", f"{tool.name} costs {price}, more than is approved in advance"
        return "allowlist", ""

    def _above(self, tool: AnyTool) -> int | None:
        word, _, amount = self.team.approvals.get(tool.name, "").partition(" ")
        return int(amount) if word == "above" else None


def _counts(step: Step) -> bool:
    """Whether a step counts against limits: it may run, or ran, and was not undone."""
    undone = step.compensation in {Compensation.DONE, Compensation.NOOP}
    return step.outcome is not Outcome.REFUSED and not undone


class _Refused(Exception):
    """The call is refused by this rule."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


def _validated(args: type[BaseModel] | None, call: ModelCall) -> BaseModel:
    if args is None:
        raise _Refused("allowlist", f"not run: there is no tool {call['name'][:80]!r}")
    try:
        return args.model_validate(call["args"])
    except ValidationError as error:
        raise _Refused("schema", complaint(error)) from error


def _hold(rule: str, limit: Limit, standing: list[Money], price: Money) -> None:
    """Hold one more order against a limit."""
    whose = rule.removeprefix("limit.")
    if limit.count is not None and len(standing) >= limit.count:
        raise _Refused(rule, f"not run: the limit of {limit.count} orders of this {whose} is reached")
    if limit.money is None:
        return
    if price.currency != limit.money.currency:
        raise _Refused(rule, f"not run: {price} can't be held against the limit of {limit.money} of this {whose}")
    spent = sum(one.amount for one in standing if one.currency == price.currency)
    if spent + price.amount > limit.money.amount:
        left = Money(amount=max(0, limit.money.amount - spent), currency=price.currency)
        raise _Refused(rule, f"not run: it costs {price}, and the limit of this {whose} leaves {left}")
