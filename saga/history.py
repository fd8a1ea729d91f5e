"""A saga's ledger, read from Temporal's history: the history is the ledger, there is no second book."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import Field
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import ActivityTaskScheduledEventAttributes as Scheduled
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter
from temporalio.exceptions import FailureError

from countermand.saga.activities import REFUSED, StepInput, UndoInput
from countermand.saga.types import Compensation, Frozen, JsonObject, Outcome, ToolCall, Undone

T = TypeVar("T")

STEP = "step:"
"""Activity ids of a saga begin so. Plain numbers would be those that the SDK gives to activities without an id."""

_STEP_ID = re.compile(rf"^{STEP}(?P<no>\d+)(?P<undo>:undo(:\d+)?)?$")


class RecordedStep(Frozen):
    """One step as the history tells it. An outcome of a call that was in flight is ``unknown``."""

    tool: str
    call: ToolCall
    args: JsonObject
    outcome: Outcome
    result: JsonObject | None = None
    compensation: Compensation = Compensation.NONE
    undo_no: int | None = None
    started: datetime | None = None
    ended: datetime | None = None
    undo_started: datetime | None = None
    undo_ended: datetime | None = None
    failed_undo: datetime | None = Field(default=None, description="When an undo was done that failed afterwards.")
    message: str = ""

    @property
    def no(self) -> int:
        """The step's number, from 1."""
        return self.call.step_no


async def recorded_steps(events: Iterable[HistoryEvent], converter: DataConverter) -> list[RecordedStep]:
    """The steps of one run, in their order.

    Args:
        events: The run's history, whole.
        converter: The workers' data converter, codec included.
    """
    steps: dict[int, RecordedStep] = {}
    scheduled: dict[int, tuple[int, bool]] = {}
    for event in events:
        when = event.event_time.ToDatetime(UTC)
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            task = event.activity_task_scheduled_event_attributes
            step = _STEP_ID.match(task.activity_id)
            if step is None:
                continue
            no, undo = int(step["no"]), step["undo"] is not None
            scheduled[event.event_id] = (no, undo)
            begin = _undo_begin if undo else _forward_begin
            steps[no] = await begin(steps, task, converter, when)
            continue
        ended = scheduled.get(_ending(event) or 0)
        if ended is not None:
            no, of_undo = ended
            end = _undo_end if of_undo else _forward_end
            steps[no] = await end(steps[no], event, converter, when)
    return [steps[no] for no in sorted(steps)]


def merged(runs: Iterable[list[RecordedStep]]) -> list[RecordedStep]:
    """The union of several runs' ledgers: a reset leaves a run behind, and a recovery or revocation adds its undos.

    What is known of a step wins over what is not: its result, and that it was undone.
    """
    steps: dict[tuple[int, str], RecordedStep] = {}
    for step in (step for run in runs for step in run):
        known = steps.get((step.no, step.tool))
        steps[step.no, step.tool] = step if known is None else _united(known, step)
    return sorted(steps.values(), key=lambda step: (step.no, step.tool))


_KNOWN = (Outcome.REFUSED, Outcome.UNKNOWN, Outcome.DONE)


def _united(one: RecordedStep, other: RecordedStep) -> RecordedStep:
    # A run that a reset left may have made the call that another one had refused, or the other way round.
    forward = max(one, other, key=lambda step: _KNOWN.index(step.outcome))
    undo = max(one, other, key=_undo_known)
    return _change(
        forward,
        started=min(filter(None, (one.started, other.started)), default=None),
        compensation=undo.compensation,
        undo_no=undo.undo_no,
        undo_started=undo.undo_started,
        undo_ended=undo.undo_ended,
    )


def _undo_known(step: RecordedStep) -> tuple[int, float]:
    """How much is known of an undo; of two that were done the later counts, since the earlier failed afterwards."""
    order = (Compensation.NONE, Compensation.PENDING, Compensation.FAILED, Compensation.NOOP, Compensation.DONE)
    return order.index(step.compensation), step.undo_ended.timestamp() if step.undo_ended else 0.0


def _ending(event: HistoryEvent) -> int | None:
    """The id of the scheduling event that this event ends, or None."""
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            return event.activity_task_completed_event_attributes.scheduled_event_id
        case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
            return event.activity_task_failed_event_attributes.scheduled_event_id
        case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
            return event.activity_task_timed_out_event_attributes.scheduled_event_id
        case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
            return event.activity_task_canceled_event_attributes.scheduled_event_id
        case _:
            return None


async def _forward_begin(
    _steps: Mapping[int, RecordedStep], task: Scheduled, converter: DataConverter, when: datetime
) -> RecordedStep:
    given = await _decode(converter, task.input, StepInput)
    return RecordedStep(
        tool=task.activity_type.name, call=given.call, args=given.args, outcome=Outcome.UNKNOWN, started=when
    )


async def _undo_begin(
    steps: Mapping[int, RecordedStep], task: Scheduled, converter: DataConverter, when: datetime
) -> RecordedStep:
    given = await _decode(converter, task.input, UndoInput)
    step = steps.get(given.call.step_no)
    if step is None:
        # A workflow that only undoes: a recovery, a revocation, or an operator's decision.
        step = RecordedStep(
            tool=given.tool,
            call=given.call.model_copy(update={"key": given.call.step_key}),
            args=given.args,
            outcome=Outcome.UNKNOWN if given.result is None else Outcome.DONE,
            result=given.result,
            started=when,
        )
    undo_no = step.undo_no or 1 + max((other.undo_no or 0 for other in steps.values()), default=0)
    return _change(step, compensation=Compensation.PENDING, undo_no=undo_no, undo_started=when)


async def _forward_end(
    step: RecordedStep, event: HistoryEvent, converter: DataConverter, when: datetime
) -> RecordedStep:
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
        payloads = event.activity_task_completed_event_attributes.result
        result = await _decode(converter, payloads, JsonObject)
        return _change(step, outcome=Outcome.DONE, result=result, ended=when)
    if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
        failure = event.activity_task_failed_event_attributes.failure
        refused = failure.application_failure_info.type == REFUSED
        outcome = Outcome.REFUSED if refused else Outcome.UNKNOWN
        return _change(step, outcome=outcome, ended=when, message=await failure_message(converter, failure))
    return _change(step, ended=when, message="timed out or cancelled")


async def _undo_end(step: RecordedStep, event: HistoryEvent, converter: DataConverter, when: datetime) -> RecordedStep:
    if event.event_type != EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
        failed = event.activity_task_failed_event_attributes.failure
        message = await failure_message(converter, failed) if failed.message else "timed out or cancelled"
        return _change(step, compensation=Compensation.FAILED, undo_ended=when, message=message)
    undone = await _decode(converter, event.activity_task_completed_event_attributes.result, Undone)
    compensation = Compensation.DONE if undone.effective else Compensation.NOOP
    return _change(step, compensation=compensation, undo_ended=when)


async def failure_message(converter: DataConverter, failure: Failure) -> str:
    """What a failure says; where payloads are encrypted, so are its words."""
    decoded = Failure()
    decoded.CopyFrom(failure)
    told = await converter.decode_failure(decoded)
    return told.message if isinstance(told, FailureError) else str(told)


def _change(step: RecordedStep, **fields: object) -> RecordedStep:
    return step.model_copy(update=fields)


async def _decode(converter: DataConverter, payloads: Payloads, hint: type[T]) -> T:
    return (await converter.decode(payloads.payloads, [hint]))[0]
