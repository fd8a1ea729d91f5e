"""What the model and the world answered in a recorded run, given again to a run of today."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor
from typing_extensions import override

from countermand.agents.answers import Thought
from countermand.agents.think import Thinker, ThinkRequest
from countermand.replay.differences import differences
from countermand.saga.activities import StepInput, UndoInput, heartbeats
from countermand.saga.history import failure_message, recorded_steps
from countermand.saga.types import Compensation, Frozen

_THINK = Thinker.think.__name__
_LANDED = b'"answer":"landed"'


class Recorded(Frozen):
    """How one recorded activity ended: ``failure`` names its type and message, None if it was done."""

    failure: tuple[str, str] | None = None
    cancelled: bool = False


@dataclass
class Answers:
    """A run's answers. Calls are known by their activity's type and idempotency key, thoughts by what was asked."""

    thoughts: dict[str, tuple[ThinkRequest, Thought]] = field(default_factory=dict)
    calls: defaultdict[tuple[str, str], list[Recorded]] = field(default_factory=lambda: defaultdict(list))
    landed: set[str] = field(default_factory=set)
    cancel_in: tuple[str, str] | None = None
    reason: str = ""


async def read_answers(history: WorkflowHistory) -> Answers:
    """Take the answers from a run's history."""
    scheduled: dict[int, HistoryEvent] = {}
    answers = Answers()
    for step in await recorded_steps(history.events, pydantic_data_converter):
        if step.compensation is Compensation.DONE:
            answers.landed.add(step.call.step_key)
    last: tuple[str, str] | None = None
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled[event.event_id] = event
            last = await _called(event) or last
        elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            answers.cancel_in = answers.cancel_in or last
            answers.reason = event.workflow_execution_cancel_requested_event_attributes.cause
        elif (begin := _begin(event, scheduled)) is not None:
            await _note(answers, begin, event)
    return answers


async def _note(answers: Answers, begin: HistoryEvent, end: HistoryEvent) -> None:
    task = begin.activity_task_scheduled_event_attributes
    done = end.activity_task_completed_event_attributes.result.payloads
    called = await _called(begin)
    if called is None and task.activity_type.name == _THINK and done:
        request, thought = (
            (await pydantic_data_converter.decode(task.input.payloads, [ThinkRequest]))[0],
            (await pydantic_data_converter.decode(done, [Thought]))[0],
        )
        answers.thoughts[_asked(request)] = (request, thought)
    elif called is not None:
        if done and _LANDED in done[0].data:
            answers.landed.add(called[1])
        answers.calls[called].append(await _ending(end))


async def _ending(end: HistoryEvent) -> Recorded:
    match end.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
            failure = end.activity_task_failed_event_attributes.failure
            kind = failure.application_failure_info.type or "Failure"
            return Recorded(failure=(kind, await failure_message(pydantic_data_converter, failure)))
        case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
            return Recorded(failure=("TimedOut", "it timed out when it was recorded"))
        case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
            return Recorded(cancelled=True)
        case _:
            return Recorded()


class Recital(Interceptor):
    """Lets a worker's activities end as they were recorded; what was done then is done now, in today's world.

    Args:
        answers: What was recorded.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    @override
    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Reciting(next, self._answers)


class _Reciting(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, answers: Answers) -> None:
        super().__init__(inner)
        self._answers = answers

    @override
    async def execute_activity(self, input: ExecuteActivityInput) -> object:
        given: object = input.args[0] if input.args else None
        if isinstance(given, ThinkRequest):
            return _thought(self._answers, given)
        if not isinstance(given, StepInput | UndoInput):
            return await super().execute_activity(input)
        called = (activity.info().activity_type, given.call.key)
        known = self._answers.calls[called]
        ending = known.pop(0) if len(known) > 1 else known[0] if known else None
        if called == self._answers.cancel_in:
            self._answers.cancel_in = None
            saga = activity.client().get_workflow_handle(activity.info().workflow_id or "")
            await saga.cancel(reason=self._answers.reason)
        if ending is None or not (ending.failure or ending.cancelled):
            return await super().execute_activity(input)
        if given.call.key in self._answers.landed:
            await super().execute_activity(input)
        if ending.failure is not None:
            raise _failure(*ending.failure)
        async with heartbeats():
            # Until the cancel, which comes with a heartbeat.
            return await asyncio.Event().wait()


def _failure(kind: str, message: str) -> ApplicationError:
    return ApplicationError(message, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def _thought(answers: Answers, request: ThinkRequest) -> Thought:
    """The recorded answer to a question of the same shape, with the ids and times of today in it."""
    recorded = answers.thoughts.get(_asked(request))
    if recorded is None:
        last = request.delta[-1].text[:200] if request.delta else ""
        raise _failure(
            "NotRecorded",
            f"agent {request.agent} was not asked this when it was recorded; the last it read: {last!r}",
        )
    then, thought = recorded
    renamed = {
        was: now
        for old, new in zip(then.delta, request.delta, strict=True)
        for _, was, now in differences(_json(old.text), _json(new.text))
        if isinstance(was, str) and isinstance(now, str)
    }
    text = thought.model_dump_json()
    for was, now in renamed.items():
        text = text.replace(json.dumps(was)[1:-1], json.dumps(now)[1:-1])
    return Thought.model_validate_json(text)


def _asked(request: ThinkRequest) -> str:
    """What a question is known by: the agent, and which messages it read; the customer's words count, ids do not."""
    read = [
        (message.type, message.name, getattr(message, "status", None), message.text if message.type == "human" else "")
        for message in request.delta
    ]
    return json.dumps([request.agent, read])


def _json(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _called(event: HistoryEvent) -> tuple[str, str] | None:
    """The activity type and the idempotency key of a tool's call, undo or probe; None for what is none."""
    task = event.activity_task_scheduled_event_attributes
    given: list[JsonValue] = await pydantic_data_converter.decode(task.input.payloads)
    call = given[0].get("call") if given and isinstance(given[0], dict) else None
    key = call.get("key") if isinstance(call, dict) else None
    return (task.activity_type.name, key) if isinstance(key, str) else None


def _begin(event: HistoryEvent, scheduled: dict[int, HistoryEvent]) -> HistoryEvent | None:
    return next((scheduled[no] for no in _scheduled_ids(event) if no in scheduled), None)


def _scheduled_ids(event: HistoryEvent) -> Iterator[int]:
    yield event.activity_task_completed_event_attributes.scheduled_event_id
    yield event.activity_task_failed_event_attributes.scheduled_event_id
    yield event.activity_task_timed_out_event_attributes.scheduled_event_id
    yield event.activity_task_canceled_event_attributes.scheduled_event_id
