"""The tool contract finds every planted fault, and nothing in a tool that has none."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from typing_extensions import override

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.saga.tool import Tool
from countermand.saga.types import Effect, Frozen, ProbeAnswer, Probed, ToolCall, Undone
from countermand.testing.contract import Finding, Happened, Rule, check_tool


class PutLabel(Frozen):
    shelf: str
    text: str


class Label(Frozen):
    shelf: str
    text: str


class Shelves:
    """A downstream in memory, with all that a careful one does; each subclass forgets one thing."""

    def __init__(self) -> None:
        self.labels = {"A": "books"}
        self.books: list[Happened] = []
        self.answers: dict[str, Label] = {}
        self.before: dict[str, str | None] = {}
        self.buried: set[str] = set()
        self.down = False

    # -- what the tool is made of ----------------------------------------------------------------------------------

    async def forward(self, call: ToolCall, args: PutLabel) -> Label:
        """Put a label on a shelf."""
        self.answer()
        if call.step_key in self.buried:
            raise ToolRefused("that call was undone")
        if call.key not in self.answers:
            self.put(call.key, args)
        return self.answers[call.key]

    async def undo(self, call: ToolCall, args: PutLabel, _result: Label | None) -> Undone:
        self.answer()
        self.buried.add(call.step_key)
        if self.answers.pop(call.step_key, None) is None:
            return Undone(effective=False)
        self.take_back(call, args)
        return Undone(effective=True)

    async def probe(self, call: ToolCall, _args: PutLabel) -> Probed[Label]:
        self.answer()
        found = self.answers.get(call.step_key)
        return Probed(ProbeAnswer.LANDED, found) if found else Probed(ProbeAnswer.NOT_LANDED)

    # -- its parts -------------------------------------------------------------------------------------------------

    def answer(self) -> None:
        if self.down:
            raise ToolUnavailable("nobody answers")

    def put(self, key: str, args: PutLabel) -> None:
        self.before[key] = self.labels.get(args.shelf)
        self.labels[args.shelf] = args.text
        self.answers[key] = Label(shelf=args.shelf, text=args.text)
        self.books.append(Happened(key, "do"))

    def take_back(self, call: ToolCall, args: PutLabel) -> None:
        stood = self.before.get(call.step_key)
        if stood is None:
            self.labels.pop(args.shelf, None)
        else:
            self.labels[args.shelf] = stood
        self.books.append(Happened(call.key, "undo"))

    # -- as the contract sees it -----------------------------------------------------------------------------------

    async def effects(self) -> list[Happened]:
        return self.books

    async def snapshot(self) -> object:
        return dict(self.labels)

    @asynccontextmanager
    async def outage(self) -> AsyncGenerator[None]:
        self.down = True
        yield
        self.down = False

    def tool(self, effect: Effect = Effect.COMPENSABLE, *, fenced: bool = True) -> Tool[PutLabel, Label]:
        return Tool(
            name="put_label",
            description="Put a label on a shelf.",
            effect=effect,
            args=PutLabel,
            result=Label,
            forward=self.forward,
            undo=self.undo if effect is Effect.COMPENSABLE else None,
            undo_name="take_label",
            probe=self.probe,
            fenced=fenced,
        )


class WithoutTombstone(Shelves):
    @override
    async def undo(self, call: ToolCall, args: PutLabel, _result: Label | None) -> Undone:
        undone = await super().undo(call, args, _result)
        self.buried.clear()
        return undone


class DeletesWhatExisted(Shelves):
    @override
    def take_back(self, call: ToolCall, args: PutLabel) -> None:
        super().take_back(call, args)
        self.labels.pop(args.shelf, None)


class ProbeForgets(Shelves):
    @override
    async def probe(self, call: ToolCall, _args: PutLabel) -> Probed[Label]:
        self.answer()
        return Probed(ProbeAnswer.NOT_LANDED)


class ProbeInvents(Shelves):
    @override
    async def probe(self, call: ToolCall, _args: PutLabel) -> Probed[Label]:
        self.answer()
        return Probed(ProbeAnswer.LANDED, self.answers.get(call.step_key) or Label(shelf="A", text="?"))


class ProbeGuesses(Shelves):
    @override
    async def probe(self, call: ToolCall, _args: PutLabel) -> Probed[Label]:
        return Probed(ProbeAnswer.NOT_LANDED) if self.down else await super().probe(call, _args)


class MintsItsKey(Shelves):
    @override
    async def forward(self, call: ToolCall, args: PutLabel) -> Label:
        await super().forward(call.model_copy(update={"key": uuid.uuid4().hex}), args)
        return self.answers.setdefault(call.step_key, Label(shelf=args.shelf, text=args.text))


class RepeatsTheEffect(Shelves):
    @override
    async def forward(self, call: ToolCall, args: PutLabel) -> Label:
        label = await super().forward(call, args)
        if call.attempt > 1:
            self.books.append(Happened(call.key, "do"))
        return label


class UndoesTwice(Shelves):
    @override
    async def undo(self, call: ToolCall, args: PutLabel, _result: Label | None) -> Undone:
        undone = await super().undo(call, args, _result)
        if not undone.effective and call.step_key in self.before:
            self.take_back(call, args)
        return undone


class UndoesWhatNeverHappened(Shelves):
    @override
    async def undo(self, call: ToolCall, args: PutLabel, _result: Label | None) -> Undone:
        await super().undo(call, args, _result)
        return Undone(effective=True)


class SaysItUndid(Shelves):
    @override
    def take_back(self, call: ToolCall, args: PutLabel) -> None:
        pass


class NeedsTheResult(Shelves):
    @override
    async def undo(self, call: ToolCall, args: PutLabel, _result: Label | None) -> Undone:
        if _result is None:
            raise ValueError("what shall be undone?")
        return await super().undo(call, args, _result)


PLANTED = [
    (WithoutTombstone, Rule.DO_AFTER_UNDO),
    (DeletesWhatExisted, Rule.RESTORES),
    (ProbeForgets, Rule.PROBE_LANDED),
    (ProbeInvents, Rule.PROBE_NOT_LANDED),
    (ProbeGuesses, Rule.PROBE_UNKNOWN),
    (MintsItsKey, Rule.USES_KEY),
    (RepeatsTheEffect, Rule.DUPLICATE_FORWARD),
    (UndoesTwice, Rule.DUPLICATE_UNDO),
    (UndoesWhatNeverHappened, Rule.UNDO_BEFORE_DO),
    (SaysItUndid, Rule.UNDOES),
    (NeedsTheResult, Rule.ANSWERS),
]


async def check(shelves: Shelves, tool: Tool[PutLabel, Label] | None = None) -> list[Finding]:
    async def sample() -> PutLabel:
        shelves.labels = {"A": "books"}
        return PutLabel(shelf="A", text="maps")

    return await check_tool(tool or shelves.tool(), sample, shelves)


async def test_nothing_is_found_in_a_tool_without_fault() -> None:
    assert await check(Shelves()) == []


@pytest.mark.parametrize(("planted", "rule"), PLANTED, ids=lambda given: getattr(given, "__name__", ""))
async def test_a_planted_fault_is_found_under_its_rule(planted: type[Shelves], rule: Rule) -> None:
    assert rule in [finding.rule for finding in await check(planted())]


async def test_only_the_broken_rule_is_reported() -> None:
    assert {finding.rule for finding in await check(DeletesWhatExisted())} == {Rule.RESTORES}


async def test_a_finding_names_the_tool_the_rule_and_what_was_seen() -> None:
    finding = (await check(DeletesWhatExisted()))[0]

    assert str(finding) == (
        "tool 'put_label' breaks the rule 'an undo restores what was there before': "
        "before the call {'A': 'books'}, after its undo {}"
    )


async def test_a_tool_that_says_it_is_not_fenced_may_lack_the_tombstone() -> None:
    shelves = WithoutTombstone()

    assert await check(shelves, shelves.tool(fenced=False)) == []


async def test_a_read_that_has_an_effect_is_found() -> None:
    shelves = Shelves()

    assert {finding.rule for finding in await check(shelves, shelves.tool(Effect.READ))} == {Rule.READ_ONLY}


async def test_an_irreversible_tool_is_checked_without_its_undo() -> None:
    shelves = RepeatsTheEffect()
    found = await check(shelves, shelves.tool(Effect.IRREVERSIBLE))

    assert [finding.rule for finding in found] == [Rule.DUPLICATE_FORWARD]
