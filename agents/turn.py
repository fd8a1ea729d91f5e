"""One turn: what the agents decided is judged, run as steps of the saga, and told back to them."""

import asyncio
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as ModelCall
from temporalio.exceptions import ActivityError

from countermand.agents.admission import Admission, Admitted
from countermand.agents.builtin import TRANSFER, Abort, HandedOver, Transfer, UndoTo
from countermand.agents.dry_run import DryRun
from countermand.agents.guard import Guard, Judged
from countermand.agents.messages import Messages, answer, as_json, refusal
from countermand.agents.team import REMINDER, Agent
from countermand.agents.think import ThinkRequest, think
from countermand.agents.turn_input import TurnInput
from countermand.agents.usage import Usage
from countermand.saga import Cause, CauseKind, Saga, SagaFailed, SagaState, ToolRefused, ToolUnavailable
from countermand.saga.ledger import Step
from countermand.saga.types import Effect

MAX_THOUGHTS = 40
MAX_REFUSALS = 6
"""How often a turn may think, and how many messages it may make with calls that are refused."""

MAX_BYTES = 500_000
"""Of a turn's messages, as JSON: each model call takes them all, and a payload has 2 MB at most."""


@dataclass
class Planned:
    """A call of a model message, judged: refused already, imagined in a dry run, or ready to run."""

    call: ModelCall
    judged: Judged
    admitted: Admitted | None = None
    imagined: str | None = None

    @property
    def step(self) -> Step | None:
        """The call's step, if it is one."""
        return self.admitted.step if self.admitted else None


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
    dry_run: DryRun = field(default_factory=DryRun)
    guard: Guard = field(init=False)

    def __post_init__(self) -> None:
        self.guard = Guard(self.request.team, self.saga, self.request.spent, self.request.tainted)
        self._admission = Admission(self.request.team, self.saga, self.guard, self.request.tenant)

    async def think(self, name: str, delta: list[AnyMessage]) -> AIMessage:
        """Let an agent decide what to do next, given the turn's messages behind the customer's own.

        Raises:
            SagaFailed: The model could not be asked, or the turn thought too often or too much.
        """
        self.thoughts += 1
        if self.thoughts > MAX_THOUGHTS:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped after {MAX_THOUGHTS} model calls")
        if len(Messages.dump_json(delta)) > MAX_BYTES:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped: its messages have over {MAX_BYTES:,} bytes")
        request = ThinkRequest(agent=name, model=self.request.team.agent(name).model or self.request.model, delta=delta)
        try:
            thought = await think(request, task_queue=self.request.model_queue)
        except ActivityError as error:
            raise _failed(CauseKind.MODEL, f"the model could not be asked: {error.cause or error}") from error
        self.malformed = thought.malformed
        self.usage[request.model] = self.usage.get(request.model, Usage()).plus(thought.usage)
        self.saga.journal.decided(name, model=request.model, prompt=thought.prompt, reply=as_json([thought.message])[0])
        return thought.message

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
        calls = message.tool_calls
        overdone = self.guard.overdone(agent, calls)
        planned = [await self._plan(agent, call, beside=len(calls), overdone=overdone) for call in calls]
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
        # Once a message: a model is told what is wrong with it, and may mend it, however many calls it holds.
        self.refusals += any(one.status == "error" for one in answers)
        if self.refusals >= MAX_REFUSALS:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped after {self.refusals} messages with refused calls")
        return answers, name

    async def _plan(self, agent: Agent, call: ModelCall, *, beside: int, overdone: frozenset[str]) -> Planned:
        """Judge a call; number it if it is a step."""
        malformed = self.malformed.get(call["id"] or "")
        judged = await self.guard.judge(agent, call, beside=beside, overdone=overdone, malformed=malformed)
        if judged.verdict.verdict == "refused" or judged.tool is None or judged.args is None:
            return Planned(call, judged)
        if self.request.dry_run and judged.tool.effect is not Effect.READ:
            return Planned(call, judged, imagined=await self.dry_run.imagine(judged.tool, judged.args, judged.verdict))
        return Planned(call, judged, self._admission.register(agent, judged, judged.tool, judged.args))

    async def _run_group(self, agent: Agent, group: list[Planned]) -> list[ToolMessage]:
        for one in group:
            if one.admitted is not None and not one.admitted.waits:
                self.saga.launch(one.admitted.step)
        return list(await asyncio.gather(*(self._finish(agent, one) for one in group)))

    async def _finish(self, agent: Agent, one: Planned) -> ToolMessage:
        if one.judged.verdict.verdict == "refused":
            return refusal(one.call, one.judged.verdict.reason)
        try:
            if one.imagined is not None:
                return ToolMessage(one.imagined, tool_call_id=one.call["id"] or "", name=one.call["name"])
            if one.admitted is None:
                return await self._builtin(one)
            await self._admission.let_pass(agent, one.call, one.admitted)
            result = await self.saga.finish(one.admitted.step)
        except (ToolRefused, ToolUnavailable) as error:
            if one.step is not None and one.step.task is not None:
                # A refusal's words are the provider's, as its answers are.
                self.guard.read([one.step.tool])
            return refusal(one.call, str(error))
        self.guard.read([one.admitted.step.tool])
        return answer(one.call, result)

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
    if one.admitted is not None:
        one.admitted.refuse(reason)
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
