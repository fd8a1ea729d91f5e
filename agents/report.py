"""What a batch came to, line by line and in sum; read from the sagas' own results, not from a second book."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TypeVar

from pydantic import Field
from temporalio.client import Client, WorkflowExecution, WorkflowFailureError

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.batch import Line
from countermand.agents.lines import Amounts, LineReport, moved
from countermand.agents.pages import load
from countermand.agents.swarm import Ended, saga_id
from countermand.agents.swarms import ended_lines
from countermand.saga import SagaReport, SagaState
from countermand.saga.reading import quoted, read_saga
from countermand.saga.types import Cause, CauseKind, Frozen, Outcome, Residual

ItemT = TypeVar("ItemT")
ReadT = TypeVar("ReadT")

AT_ONCE = 16
"""Sagas that are read side by side."""


class ReportLine(Frozen):
    """A line as its last attempt left it; ``seconds`` from that saga's start to its end, money of all its attempts."""

    number: int
    id: str
    saga: str
    attempt: int
    state: SagaState
    text: str
    cause: Cause | None
    tool: str = Field(description="The tool whose step caused the end; empty if none did.")
    seconds: float | None
    taken: Amounts
    returned: Amounts
    residuals: tuple[Residual, ...]


class Failures(Frozen):
    """Lines that failed by the same tool for the same kind of cause, with the words of the first of them."""

    tool: str
    kind: CauseKind
    lines: int
    message: str


class Sums(Frozen):
    """What lines of one outcome come to. Money in minor units by currency."""

    lines: int
    taken: Amounts
    returned: Amounts

    @property
    def standing(self) -> Amounts:
        """What was taken and not given back."""
        return dict(Counter(self.taken) - Counter(self.returned))


class SwarmReport(Frozen):
    """A batch's report; ``waiting`` lines have not ended, or were never started."""

    batch: str
    lines: tuple[ReportLine, ...]
    waiting: int
    states: dict[SagaState, Sums]
    total: Sums
    failures: tuple[Failures, ...] = Field(description="The most frequent first.")
    began: datetime | None
    ended: datetime | None


async def read_report(client: Client, batch_id: str) -> SwarmReport:
    """The report of a batch, ended or not.

    Raises:
        NoSuchSwarm: There is no swarm of that batch.
    """
    batch, ended = await ended_lines(client, batch_id)
    lines = await load(client, batch)
    times = {
        execution.id: execution
        async for execution in client.list_workflows(f"WorkflowId STARTS_WITH {quoted(f'{batch_id}/')}")
    }
    attempts: dict[int, list[Ended]] = {}
    for one in ended:
        attempts.setdefault(one.place, []).append(one)
    read = await in_turn(attempts.items(), lambda item: _line(client, batch_id, lines[item[0]], item[1], times))
    return summed(batch_id, sorted(read, key=lambda line: line.number), list(times.values()), total=batch.lines)


def summed(batch_id: str, lines: list[ReportLine], executions: list[WorkflowExecution], *, total: int) -> SwarmReport:
    """The sums over a batch's lines."""
    failed: dict[tuple[str, CauseKind], list[Cause]] = {}
    for line in lines:
        if line.cause:
            failed.setdefault((line.tool, line.cause.kind), []).append(line.cause)
    failures = [
        Failures(tool=tool, kind=kind, lines=len(causes), message=causes[0].message)
        for (tool, kind), causes in failed.items()
    ]
    return SwarmReport(
        batch=batch_id,
        lines=tuple(lines),
        waiting=total - len(lines),
        states={
            state: _sums([line for line in lines if line.state is state]) for state in {line.state for line in lines}
        },
        total=_sums(lines),
        failures=tuple(sorted(failures, key=lambda one: one.lines, reverse=True)),
        began=min((one.start_time for one in executions), default=None),
        ended=max((one.close_time for one in executions if one.close_time), default=None),
    )


def _sums(lines: list[ReportLine]) -> Sums:
    return Sums(
        lines=len(lines),
        taken=_added(line.taken for line in lines),
        returned=_added(line.returned for line in lines),
    )


def _added(amounts: Iterable[Amounts]) -> Amounts:
    total = Counter[str]()
    for one in amounts:
        total.update(one)
    return dict(total)


async def in_turn(items: Iterable[ItemT], read: Callable[[ItemT], Awaitable[ReadT]]) -> list[ReadT]:
    """Read all items, a bounded number side by side."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(item: ItemT) -> ReadT:
        async with free:
            return await read(item)

    return await asyncio.gather(*(one(item) for item in items))


async def _line(
    client: Client, batch_id: str, line: Line, attempts: list[Ended], times: dict[str, WorkflowExecution]
) -> ReportLine:
    sagas = [saga_id(batch_id, line, one.attempt) for one in attempts]
    ends = [await _ended(client, saga, one.state) for saga, one in zip(sagas, attempts, strict=True)]
    money = [moved(result) for _, result in ends if result]
    report, _ = ends[-1]
    cause = report.cause
    found = times.get(sagas[-1])
    return ReportLine(
        number=line.number,
        id=line.id,
        saga=sagas[-1],
        attempt=attempts[-1].attempt,
        state=report.state,
        text=line.text,
        cause=cause,
        tool=_failed_tool(report),
        seconds=(found.close_time - found.start_time).total_seconds() if found and found.close_time else None,
        taken=_added(taken for taken, _ in money),
        returned=_added(returned for _, returned in money),
        residuals=report.residuals,
    )


def _failed_tool(report: SagaReport) -> str:
    """The tool that ended a saga; where an agent gave up, the one whose refusal it had last heard of."""
    if report.cause is None:
        return ""
    if report.cause.step_no is not None:
        return report.steps[report.cause.step_no - 1].tool if report.steps else ""
    return next((step.tool for step in reversed(report.steps) if step.outcome is Outcome.REFUSED), "")


async def read_line(client: Client, batch_id: str, line: Line, ended: Ended) -> LineReport:
    """What one line came to, with what the agent said last."""
    report, result = await _ended(client, saga_id(batch_id, line, ended.attempt), ended.state)
    return LineReport(number=line.number, id=line.id, text=result.text if result else "", saga=report)


async def _ended(client: Client, saga: str, state: SagaState) -> tuple[SagaReport, TurnResult | None]:
    """A saga's report; of one that was ended from outside, as its recovery tells it."""
    try:
        result = await client.get_workflow_handle_for(AgentSaga.run, saga).result()
    except WorkflowFailureError:
        detail = await read_saga(client, saga)
        told = detail.model_dump(include={"cause", "cancelled", "residuals"})
        return SagaReport.model_validate(told | {"id": saga, "state": detail.state or state}), None
    return result.saga, result
