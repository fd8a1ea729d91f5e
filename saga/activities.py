"""A tool's forward call, undo and probe as Temporal activities."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from countermand.saga.errors import ToolRefused, ToolUnavailable
from countermand.saga.tool import AnyTool
from countermand.saga.types import Frozen, JsonObject, Money, ProbeAnswer, ToolCall, Undone

HEARTBEAT_INTERVAL = timedelta(seconds=0.5)
HEARTBEAT_TIMEOUT = timedelta(seconds=3)
"""How soon a lost worker is noticed; an activity learns of its cancellation with its next heartbeat."""

REFUSED = "ToolRefused"
UNAVAILABLE = "ToolUnavailable"

_EXPECTED = ApplicationErrorCategory.BENIGN
"""A provider that says no is no fault of the worker: it is no error in the worker's log."""

Phase = Literal["started", "done", "refused", "failed"]
Watcher = Callable[[ToolCall, Phase], Awaitable[None]]
"""Told when an attempt at a call or its undo begins and ends; the ledger says what it came to."""

# The SDK's own type of what a worker takes as an activity.
Activity = Callable[..., Any]


class StepInput(Frozen):
    """What a forward call or a probe gets."""

    call: ToolCall
    args: JsonObject


class UndoInput(Frozen):
    """What a compensation gets; ``result`` is None when the forward call's outcome is unknown."""

    tool: str
    call: ToolCall
    args: JsonObject
    result: JsonObject | None


class ProbeOutput(Frozen):
    """A probe's answer, with the forward call's result when it landed."""

    answer: ProbeAnswer
    result: JsonObject | None = None


def probe_name(tool: AnyTool) -> str:
    """The activity type of a tool's probe."""
    return f"{tool.name}.probe"


class PriceInput(Frozen):
    """The arguments of a call that is not made yet."""

    args: JsonObject


def price_name(tool: AnyTool) -> str:
    """The activity type of a tool's price."""
    return f"{tool.name}.price"


def activities_of(tools: Iterable[AnyTool], watcher: Watcher | None = None) -> list[Activity]:
    """The activities that a worker must serve to run these tools; one undo may serve several tools.

    Args:
        tools: The tools to serve.
        watcher: Told when a call or an undo begins and ends; must not raise.
    """
    served = {tool.name: tool for tool in tools}
    made: dict[str, Activity] = {}
    for tool in served.values():
        made[tool.name] = _forward(tool, watcher)
        if tool.undo_name:
            made.setdefault(tool.undo_name, _undo(tool.undo_name, served, watcher))
        if tool.probe:
            made[probe_name(tool)] = _probe(tool)
        if tool.price:
            made[price_name(tool)] = _price(tool)
    return list(made.values())


def _forward(tool: AnyTool, watcher: Watcher | None) -> Activity:
    @activity.defn(name=tool.name)
    async def forward(step: StepInput) -> JsonObject:
        call = _this_attempt(step.call)
        async with _watched(watcher, call), _attempt():
            args = tool.args.model_validate(step.args)
            result = await (tool.forward(call, args) if call.attempt == 1 else _again(tool, call, args))
            return result.model_dump(mode="json")

    return forward


async def _again(tool: AnyTool, call: ToolCall, args: BaseModel) -> BaseModel:
    """Another attempt: an earlier one may have had its effect without our hearing of it, or be under way still."""
    if tool.probe:
        try:
            probed = await tool.probe(call, args)
        except ToolRefused as error:
            # The question was refused, not the call.
            raise ToolUnavailable(f"whether an earlier attempt landed can't be asked: {error}") from error
        if probed.answer is ProbeAnswer.LANDED and probed.result is not None:
            return probed.result
    try:
        return await tool.forward(call, args)
    except ToolRefused as error:
        info = activity.info()
        timed_out_in = min(HEARTBEAT_TIMEOUT, info.start_to_close_timeout or HEARTBEAT_TIMEOUT)
        if info.started_time - info.scheduled_time < timed_out_in:
            raise
        raise ToolUnavailable(f"refused ({error}), but an earlier attempt may be under way") from error


def _undo(name: str, served: Mapping[str, AnyTool], watcher: Watcher | None) -> Activity:
    """The undo of that name, for whichever of its tools a step is of."""

    @activity.defn(name=name)
    async def undo(step: UndoInput) -> Undone:
        tool = served.get(step.tool)
        if tool is None or tool.undo is None:
            raise ApplicationError(f"tool {step.tool} is not served here, or has no compensation", non_retryable=True)
        async with _watched(watcher, step.call), _attempt():
            args = tool.args.model_validate(step.args)
            result = None if step.result is None else tool.result.model_validate(step.result)
            return await tool.undo(_this_attempt(step.call), args, result)

    return undo


def _probe(tool: AnyTool) -> Activity:
    @activity.defn(name=probe_name(tool))
    async def probe(step: StepInput) -> ProbeOutput:
        if tool.probe is None:
            raise ApplicationError(f"tool {tool.name} has no probe", non_retryable=True)
        async with _attempt():
            probed = await tool.probe(_this_attempt(step.call), tool.args.model_validate(step.args))
        result = None if probed.result is None else probed.result.model_dump(mode="json")
        return ProbeOutput(answer=probed.answer, result=result)

    return probe


def _price(tool: AnyTool) -> Activity:
    @activity.defn(name=price_name(tool))
    async def price(step: PriceInput) -> Money:
        if tool.price is None:
            raise ApplicationError(f"tool {tool.name} has no price", non_retryable=True)
        async with _attempt():
            return await tool.price(tool.args.model_validate(step.args))

    return price


def _this_attempt(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"attempt": activity.info().attempt})


@asynccontextmanager
async def _watched(watcher: Watcher | None, call: ToolCall) -> AsyncGenerator[None]:
    if watcher is None:
        yield
        return
    await watcher(call, "started")
    phase: Phase = "failed"
    try:
        yield
        phase = "done"
    except ApplicationError as error:
        phase = "refused" if error.type == REFUSED else "failed"
        raise
    finally:
        await watcher(call, phase)


@asynccontextmanager
async def _attempt() -> AsyncGenerator[None]:
    """An attempt at a tool's call: it heartbeats, ends in time, and fails in Temporal's words."""
    async with _tool_errors(), _in_time(), heartbeats():
        yield


@asynccontextmanager
async def _tool_errors() -> AsyncGenerator[None]:
    """Turn a tool's errors into Temporal failures; what the tool does not understand stays as it is: unknown."""
    try:
        yield
    except ToolRefused as error:
        raise ApplicationError(str(error), type=REFUSED, non_retryable=True, category=_EXPECTED) from None
    except ToolUnavailable as error:
        raise ApplicationError(
            str(error), type=UNAVAILABLE, next_retry_delay=error.retry_after, category=_EXPECTED
        ) from None
    except ValidationError as error:
        # Retrying cannot mend it; whether a call had its effect by then is not known.
        raise ApplicationError(str(error), type="ValidationError", non_retryable=True) from error


@asynccontextmanager
async def _in_time() -> AsyncGenerator[None]:
    """End the body when its start-to-close is over.

    The server has given the attempt up by then, which it would learn with a heartbeat only: a call that no downstream
    fences off must not begin in between.
    """
    limit = activity.info().start_to_close_timeout
    time = asyncio.timeout(None if limit is None else limit.total_seconds())
    try:
        async with time:
            yield
    except TimeoutError as error:
        if not time.expired():
            raise
        raise ToolUnavailable(f"no answer within {limit}") from error


@asynccontextmanager
async def heartbeats() -> AsyncGenerator[None]:
    """Heartbeat while the body runs, so that a cancel and a lost worker are noticed within seconds."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL.total_seconds())
            activity.heartbeat()

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
