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
from countermand.saga.types import Cause, Frozen, Outcome, Residual

ItemT = TypeVar("ItemT")
ReadT = TypeVar("ReadT")

AT_ONCE = 16
"""Sagas that are read side by side."""


class ReportLine(Frozen):
    """A line's last attempt. Money in minor units by currency, ``seconds`` from the saga's start to its end."""

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


class SwarmReport(Frozen):
    """A batch's report; ``waiting`` lines have not ended, or were never started."""

    batch: str
    lines: tuple[ReportLine, ...]
    waiting: int
    states: dict[SagaState, int]
    failures: tuple[tuple[str, str, int], ...] = Field(description="Tool, kind of cause, and how many lines.")
    taken: Amounts
    returned: Amounts
    began: datetime | None
    ended: datetime | None

    @property
    def standing(self) -> Amounts:
        """What was taken and not given back."""
        return dict(Counter(self.taken) - Counter(self.returned))


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
    last = {one.place: one for one in ended}
    read = await in_turn(last.values(), lambda one: _line(client, batch_id, lines[one.place], one, times))
    return summed(batch_id, sorted(read, key=lambda line: line.number), list(times.values()), total=batch.lines)


def summed(batch_id: str, lines: list[ReportLine], executions: list[WorkflowExecution], *, total: int) -> SwarmReport:
    """The sums over a batch's lines."""
    taken, returned = Counter[str](), Counter[str]()
    for line in lines:
        taken.update(line.taken)
        returned.update(line.returned)
    failed = Counter((line.tool, str(line.cause.kind)) for line in lines if line.cause)
    return SwarmReport(
        batch=batch_id,
        lines=tuple(lines),
        waiting=total - len(lines),
        states=dict(Counter(line.state for line in lines)),
        failures=tuple((tool, kind, count) for (tool, kind), count in failed.most_common()),
        taken=dict(taken),
        returned=dict(returned),
        began=min((one.start_time for one in executions), default=None),
        ended=max((one.close_time for one in executions if one.close_time), default=None),
    )


async def in_turn(items: Iterable[ItemT], read: Callable[[ItemT], Awaitable[ReadT]]) -> list[ReadT]:
    """Read all items, a bounded number side by side."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(item: ItemT) -> ReadT:
        async with free:
            return await read(item)

    return await asyncio.gather(*(one(item) for item in items))


async def _line(
    client: Client, batch_id: str, line: Line, ended: Ended, times: dict[str, WorkflowExecution]
) -> ReportLine:
    saga = saga_id(batch_id, line, ended.attempt)
    report, result = await _ended(client, saga, ended.state)
    taken, returned = moved(result) if result else ({}, {})
    cause = report.cause
    found = times.get(saga)
    return ReportLine(
        number=line.number,
        id=line.id,
        saga=saga,
        attempt=ended.attempt,
        state=report.state,
        text=line.text,
        cause=cause,
        tool=_failed_tool(report),
        seconds=(found.close_time - found.start_time).total_seconds() if found and found.close_time else None,
        taken=taken,
        returned=returned,
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
