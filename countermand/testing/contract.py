"""``check_tool``: does a tool keep the contract that a rollback relies on? The downstream's own books judge."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel
from typing_extensions import override

from countermand.saga.errors import ToolError, ToolUnavailable
from countermand.saga.tool import Tool
from countermand.saga.types import Effect, Frozen, ProbeAnswer, Probed, ToolCall, Undone

ArgsT = TypeVar("ArgsT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)


class Happened(NamedTuple):
    """One effect in a downstream's own books: the idempotency key that it came with, and its direction."""

    key: str | None
    direction: Literal["do", "undo"]


class Downstream(Protocol):
    """The system that a tool acts on, seen from behind: its own books, not the tool's answers."""

    async def effects(self) -> Sequence[Happened]:
        """All effects that ever happened, oldest first."""
        ...

    async def snapshot(self) -> object:
        """What stands now, as something that compares equal exactly when the same stands."""
        ...

    def outage(self) -> AbstractAsyncContextManager[None]:
        """Inside the context, the downstream answers nobody."""
        ...


class Rule(StrEnum):
    """What the contract asks of a tool."""

    ANSWERS = "a tool answers where nothing is in its way"
    READ_ONLY = "a read has no effect"
    HAS_EFFECT = "a forward call has an effect"
    USES_KEY = "a forward call sends call.key and no key of its own"
    DUPLICATE_FORWARD = "a duplicate forward call has no second effect"
    UNDOES = "an undo has its effect, and says so"
    DUPLICATE_UNDO = "an undo is effective once"
    UNDO_BEFORE_DO = "an undo of what never happened is a no-op, and says so"
    DO_AFTER_UNDO = "a forward call that comes after its undo is refused"
    RESTORES = "an undo restores what was there before"
    PROBE_LANDED = "a probe finds a call that landed, with its result"
    PROBE_NOT_LANDED = "a probe says not landed of a call that never happened"
    PROBE_UNKNOWN = "a probe says unknown, or raises ToolUnavailable, when the downstream answers nobody"


class Finding(Frozen):
    """A rule that a tool breaks, and how."""

    tool: str
    rule: Rule
    seen: str

    @override
    def __str__(self) -> str:
        return f"tool {self.tool!r} breaks the rule {self.rule.value!r}: {self.seen}"


async def check_tool(
    tool: Tool[ArgsT, ResultT], sample: Callable[[], Awaitable[ArgsT]], downstream: Downstream
) -> list[Finding]:
    """Call a tool every way that a saga may call it, and compare with the downstream's books.

    Args:
        tool: The tool; its functions are called directly, without Temporal.
        sample: Sets the stage for one call (some four are made) and answers its arguments.
        downstream: Where the tool's effects are.

    Returns:
        The rules that it breaks; empty for a tool that can be relied on.
    """
    findings: list[Finding] = []
    scenarios: list[Callable[[_Case[ArgsT, ResultT]], Awaitable[None]]] = [_read]
    if tool.effect is not Effect.READ:
        scenarios = [_duplicate_forward, _probe_before, _outage]
    if tool.undo is not None:
        scenarios += [_undone, _undone_without_result, _undo_before_do]
    for scenario in scenarios:
        case = _Case(tool, await sample(), downstream)
        await case.begin()
        try:
            await scenario(case)
        except Exception as error:  # noqa: BLE001 - whatever it raises is what is to be reported
            case.find(Rule.ANSWERS, f"{scenario.__name__.strip('_')} raised {type(error).__name__}: {error}")
        findings += [finding for finding in case.findings if finding not in findings]
    return findings


@dataclass
class _Case(Generic[ArgsT, ResultT]):
    """One step, and what the downstream's books said before it."""

    tool: Tool[ArgsT, ResultT]
    args: ArgsT
    downstream: Downstream
    before: object = None
    seen: int = 0
    saga_id: str = field(default_factory=lambda: f"contract-{uuid.uuid4().hex[:12]}")
    findings: list[Finding] = field(default_factory=list)

    async def begin(self) -> None:
        self.before = await self.downstream.snapshot()
        self.seen = len(await self.downstream.effects())

    def find(self, rule: Rule, seen: str) -> None:
        self.findings.append(Finding(tool=self.tool.name, rule=rule, seen=seen))

    def call(self, suffix: str = "", attempt: int = 1) -> ToolCall:
        return ToolCall(saga_id=self.saga_id, step_no=1, key=f"{self.saga_id}:1{suffix}", attempt=attempt)

    async def forward(self, attempt: int = 1) -> ResultT:
        return await self.tool.forward(self.call(attempt=attempt), self.args)

    async def undo(self, result: ResultT | None) -> Undone:
        if self.tool.undo is None:
            raise TypeError("only tools with a compensation are undone")
        return await self.tool.undo(self.call(":undo"), self.args, result)

    async def probe(self) -> Probed[ResultT]:
        if self.tool.probe is None:
            return Probed(ProbeAnswer.UNKNOWN)
        return await self.tool.probe(self.call(), self.args)

    async def new(self) -> list[Happened]:
        """The effects since this was asked last."""
        effects = list(await self.downstream.effects())
        found, self.seen = effects[self.seen :], len(effects)
        return found

    async def check_restored(self) -> None:
        after = await self.downstream.snapshot()
        if after != self.before:
            self.find(Rule.RESTORES, f"before the call {self.before!r}, after its undo {after!r}")

    async def check_refused(self) -> None:
        """A late attempt: the undo has been sent, and a forward call comes all the same."""
        if not self.tool.fenced:
            # Said at its declaration: the executor waits until no attempt can be running, and then undoes.
            return
        try:
            await self.forward(attempt=2)
        except ToolError:
            # A tool without a probe can't tell its downstream's refusal from an error: the books below can.
            pass
        else:
            self.find(Rule.DO_AFTER_UNDO, "it was answered as if nothing had been undone")
        if late := await self.new():
            self.find(Rule.DO_AFTER_UNDO, f"it had its effect after all: {_shown(late)}")


async def _read(case: _Case[ArgsT, ResultT]) -> None:
    await case.forward()
    if effects := await case.new():
        case.find(Rule.READ_ONLY, f"it had {_shown(effects)}")
    if await case.downstream.snapshot() != case.before:
        case.find(Rule.READ_ONLY, "something else stands after it")


async def _duplicate_forward(case: _Case[ArgsT, ResultT]) -> None:
    result = await case.forward()
    effects = await case.new()
    if not effects:
        case.find(Rule.HAS_EFFECT, "the downstream's books know nothing of it: is it a read?")
    key = case.call().key
    if minted := [one for one in effects if one.key is None or not (one.key == key or one.key.startswith(f"{key}:"))]:
        case.find(Rule.USES_KEY, f"call.key was {key!r}, the downstream got {_shown(minted)}")
    await case.forward(attempt=2)
    if again := await case.new():
        case.find(Rule.DUPLICATE_FORWARD, f"the second attempt had {_shown(again)}")
    probed = await case.probe()
    # A tool that can't ask says unknown, always; then its undo must not need the result.
    if probed.answer is ProbeAnswer.NOT_LANDED or (probed.answer is ProbeAnswer.LANDED and probed.result != result):
        case.find(Rule.PROBE_LANDED, f"the call answered {result!r}, the probe {probed.answer}, {probed.result!r}")


async def _probe_before(case: _Case[ArgsT, ResultT]) -> None:
    probed = await case.probe()
    if probed.answer is ProbeAnswer.LANDED:
        case.find(Rule.PROBE_NOT_LANDED, f"the probe says {probed.answer}, {probed.result!r}")
    if effects := await case.new():
        case.find(Rule.READ_ONLY, f"its probe had {_shown(effects)}")


async def _outage(case: _Case[ArgsT, ResultT]) -> None:
    await case.forward()
    async with case.downstream.outage():
        try:
            probed = await case.probe()
        except ToolUnavailable:
            return
    if probed.answer is not ProbeAnswer.UNKNOWN:
        case.find(Rule.PROBE_UNKNOWN, f"nobody could have told it, and it says {probed.answer}")


async def _undone(case: _Case[ArgsT, ResultT]) -> None:
    await _check_undo(case, await case.forward())


async def _undone_without_result(case: _Case[ArgsT, ResultT]) -> None:
    """The outcome of the call is unknown, and it did land."""
    await case.forward()
    await _check_undo(case, None)


async def _check_undo(case: _Case[ArgsT, ResultT], result: ResultT | None) -> None:
    knowing = "knowing the result" if result is not None else "not knowing the result"
    await case.new()
    undone = await case.undo(result)
    undid = [one for one in await case.new() if one.direction == "undo"]
    if not undid or not undone.effective:
        case.find(Rule.UNDOES, f"{knowing}, it says effective={undone.effective} and had {_shown(undid)}")
    await case.undo(result)
    if again := await case.new():
        case.find(Rule.DUPLICATE_UNDO, f"{knowing}, the second undo had {_shown(again)}")
    await case.check_restored()
    await case.check_refused()


async def _undo_before_do(case: _Case[ArgsT, ResultT]) -> None:
    undone = await case.undo(None)
    if (effects := await case.new()) or undone.effective:
        case.find(Rule.UNDO_BEFORE_DO, f"it says effective={undone.effective} and had {_shown(effects)}")
    await case.check_restored()
    await case.check_refused()


def _shown(effects: Sequence[Happened]) -> str:
    return ", ".join(f"{one.direction} under the key {one.key!r}" for one in effects) or "no effect"
