"""A saga's ledger, read from Temporal's history: the history is the ledger, there is no second book."""

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from countermand.saga.activities import REFUSED, StepInput
from countermand.saga.types import Compensation, Frozen, JsonObject, Outcome, ToolCall, Undone

T = TypeVar("T")


class RecordedStep(Frozen):
    """One step as the history tells it. An outcome of a call that was in flight is ``unknown``."""

    tool: str
    call: ToolCall
    args: JsonObject
    outcome: Outcome
    result: JsonObject | None = None
    compensation: Compensation = Compensation.NONE
    undo_no: int | None = None
    started: datetime
    ended: datetime | None = None
    undo_started: datetime | None = None
    undo_ended: datetime | None = None
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
        when = event.event_time.ToDatetime()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            task = event.activity_task_scheduled_event_attributes
            number, _, undo = task.activity_id.partition(":")
            if not number.isdecimal() or undo not in {"", "undo"}:
                continue
            no = int(number)
            scheduled[event.event_id] = (no, bool(undo))
            if undo:
                undos = sum(step.undo_no is not None for step in steps.values())
                steps[no] = _change(steps[no], compensation=Compensation.PENDING, undo_no=undos + 1, undo_started=when)
            else:
                given = await _decode(converter, task.input, StepInput)
                steps[no] = RecordedStep(
                    tool=task.activity_type.name,
                    call=given.call,
                    args=given.args,
                    outcome=Outcome.UNKNOWN,
                    started=when,
                )
            continue
        ended = _ending(event)
        if ended is None or ended not in scheduled:
            continue
        no, undo_ended = scheduled[ended]
        change = _undo_end if undo_ended else _forward_end
        steps[no] = await change(steps[no], event, converter, when)
    return [steps[no] for no in sorted(steps)]


def merged(runs: Iterable[list[RecordedStep]]) -> list[RecordedStep]:
    """The union of the ledgers of all runs of one workflow id (a reset leaves a run behind); what is known wins."""
    steps: dict[tuple[int, str], RecordedStep] = {}
    for step in (step for run in runs for step in run):
        known = steps.get((step.no, step.tool))
        if known is None or _knowledge(step) > _knowledge(known):
            steps[step.no, step.tool] = step
    return sorted(steps.values(), key=lambda step: (step.no, step.started))


def _knowledge(step: RecordedStep) -> tuple[bool, bool]:
    undone = step.compensation in {Compensation.DONE, Compensation.NOOP}
    return undone, step.outcome is not Outcome.UNKNOWN


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
        return _change(step, outcome=outcome, ended=when, message=failure.message)
    return _change(step, ended=when, message="timed out or cancelled")


async def _undo_end(step: RecordedStep, event: HistoryEvent, converter: DataConverter, when: datetime) -> RecordedStep:
    if event.event_type != EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
        message = event.activity_task_failed_event_attributes.failure.message or "timed out or cancelled"
        return _change(step, compensation=Compensation.FAILED, undo_ended=when, message=message)
    undone = await _decode(converter, event.activity_task_completed_event_attributes.result, Undone)
    compensation = Compensation.DONE if undone.effective else Compensation.NOOP
    return _change(step, compensation=compensation, undo_ended=when)


def _change(step: RecordedStep, **fields: object) -> RecordedStep:
    return step.model_copy(update=fields)


async def _decode(converter: DataConverter, payloads: Payloads, hint: type[T]) -> T:
    return (await converter.decode(payloads.payloads, [hint]))[0]
