"""One turn: what the agents decided is validated, run as steps of the saga, and told back to them."""

import asyncio
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as ModelCall
from pydantic import BaseModel, Field, ValidationError
from temporalio.exceptions import ActivityError

from countermand.agents.builtin import BUILTINS, Abort, UndoTo
from countermand.agents.messages import answer, as_json, complaint, refusal
from countermand.agents.team import REMINDER, Agent, Team
from countermand.agents.think import ThinkRequest, Thought, think
from countermand.cache.types import ContextRef
from countermand.saga import Cause, CauseKind, Saga, SagaFailed, SagaOptions, SagaState, ToolRefused, ToolUnavailable
from countermand.saga.ledger import Step
from countermand.saga.tool import AnyTool, declared
from countermand.saga.types import Frozen

MAX_THOUGHTS = 40
MAX_CALLS = 16
MAX_REFUSALS = 6
"""How often a turn may think, how many calls one message may hold, how many refusals a turn may collect."""


class TurnInput(Frozen):
    """What one turn is: the customer's words, and what they follow on."""

    text: str
    model: str
    team: Team
    session: str | None = None
    turn: int = Field(default=1, ge=1)
    context: ContextRef | None = None
    confirmed: bool = False
    options: SagaOptions = SagaOptions()


@dataclass
class Planned:
    """A call of a model message: refused already, or ready to run."""

    call: ModelCall
    refused: str = ""
    builtin: BaseModel | None = None
    step: Step | None = None


@dataclass
class Turn:
    """The turn's state beside the graph's: its saga, and how much patience is left."""

    request: TurnInput
    saga: Saga
    thoughts: int = 0
    refusals: int = 0
    reminded: bool = False
    malformed: dict[str, str] = field(default_factory=dict)

    async def think(self, delta: list[AnyMessage]) -> AIMessage:
        """Let the agent decide what to do next.

        Raises:
            SagaFailed: The model could not be asked, or the turn thought too often.
        """
        self.thoughts += 1
        if self.thoughts > MAX_THOUGHTS:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped after {MAX_THOUGHTS} model calls")
        request = ThinkRequest(
            agent=self.agent,
            model=self.agent.model or self.request.model,
            context=self.request.context,
            delta=delta,
            confirmed=self.request.confirmed,
        )
        try:
            thought: Thought = await think(request)
        except ActivityError as error:
            raise _failed(CauseKind.MODEL, f"the model could not be asked: {error.cause or error}") from error
        self.malformed = thought.malformed
        self.saga.journal.decided(
            self.agent.name, model=request.model, prompt=thought.prompt, reply=as_json([thought.message])[0]
        )
        return thought.message

    @property
    def agent(self) -> Agent:
        """The agent whose turn it is."""
        return self.request.team.entry

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

    async def run_calls(self, message: AIMessage) -> list[ToolMessage]:
        """Run a model message's calls: all are checked and numbered before the first runs.

        Raises:
            SagaFailed: The saga can only be rolled back now.
        """
        planned = [self._plan(call, place) for place, call in enumerate(message.tool_calls)]
        answers: list[ToolMessage] = []
        for group in _groups(planned):
            if self.saga.state is SagaState.COMMITTED:
                answers += [_skip(one, "the transaction is committed; the next turn starts a new one") for one in group]
            elif any(told.status == "error" for told in answers):
                answers += [_skip(one, "an earlier call of the same message was refused") for one in group]
            else:
                answers += await self._run_group(group)
        self.refusals += sum(one.status == "error" for one in answers)
        if self.refusals >= MAX_REFUSALS:
            raise _failed(CauseKind.LIMIT, f"the turn was stopped after {self.refusals} refused calls")
        return answers

    def _plan(self, call: ModelCall, place: int) -> Planned:
        """Check a call; number it if it is a step."""
        name = call["name"]
        tool = declared().get(name) if name in self.agent.tools else None
        args = BUILTINS.get(name) or (tool.args if tool else None)
        reason = ""
        if place >= MAX_CALLS:
            reason = f"not run: a message may hold {MAX_CALLS} calls, this is number {place + 1}"
        elif call["id"] in self.malformed:
            reason = f"not run: the arguments are not valid JSON: {self.malformed[call['id']]}"
        elif self.saga.state is SagaState.COMMITTED:
            reason = "not run: this transaction is committed; the next turn starts a new one"
        if args is None:
            offered = ", ".join((*self.agent.tools, *BUILTINS))
            reason = f"not run: there is no tool {name[:80]!r} here; there are {offered}"
        if reason or args is None:
            return Planned(call, refused=reason)
        try:
            given = args.model_validate(call["args"])
        except ValidationError as error:
            return Planned(call, refused=complaint(error))
        if tool is None:
            return Planned(call, builtin=given)
        return Planned(call, step=self.saga.register(tool, given, agent=self.agent.name))

    async def _run_group(self, group: list[Planned]) -> list[ToolMessage]:
        for one in group:
            if one.step is not None:
                self.saga.launch(one.step)
        return list(await asyncio.gather(*(self._finish(one) for one in group)))

    async def _finish(self, one: Planned) -> ToolMessage:
        if one.refused:
            return refusal(one.call, one.refused)
        try:
            if one.step is not None:
                return answer(one.call, await self.saga.finish(one.step))
            return await self._builtin(one)
        except (ToolRefused, ToolUnavailable) as error:
            return refusal(one.call, str(error))

    async def _builtin(self, one: Planned) -> ToolMessage:
        match one.builtin:
            case Abort(reason=reason):
                raise _failed(CauseKind.ABORTED, reason)
            case UndoTo(step_no=step_no):
                await self.saga.undo_to(step_no)
            case _:
                await self.saga.commit()
        return answer(one.call, self.saga.report())


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
    tool: AnyTool | None = one.step.tool if one.step is not None else None
    return tool is not None and tool.parallel


def _waits_for(one: Planned, group: list[Planned]) -> bool:
    after = one.step.tool.after if one.step is not None else ()
    return any(other.call["name"] in after for other in group)


def _failed(kind: CauseKind, message: str) -> SagaFailed:
    return SagaFailed(Cause(kind=kind, message=message))
