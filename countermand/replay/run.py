"""A recorded saga once more, offline: the recorded answers of the model, today's code, a fresh world."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import zip_longest

from pydantic import JsonValue
from temporalio import activity
from temporalio.client import WorkflowFailureError, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import Worker

from countermand.replay.answers import Recital, read_answers
from countermand.replay.bundle import Bundle, BundleInvalid
from countermand.replay.differences import differences
from countermand.saga.audit.appending import APPEND
from countermand.saga.history import RecordedStep, recorded_steps
from countermand.saga.tool import declared
from countermand.saga.types import Effect, Frozen, JsonObject, SagaReport
from countermand.testing.servers import temporal_local
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.registry import PACKS
from countermand.tools.world.faults import FaultRequest
from countermand.tools.world.ledger import LedgerEntry
from countermand.tools.world.server import serve_world

_CLOSED_BY_OTHERS = ("workflowExecutionTerminatedEventAttributes", "workflowExecutionTimedOutEventAttributes")


class LedgerLine(Frozen):
    """One effect in the world's own ledger, ids and times aside. ``amount`` is in minor units of ``currency``."""

    operation: str
    direction: str
    kind: str
    step_no: int | None
    amount: int | None
    currency: str | None


class Ran(Frozen):
    """What a run came to. ``differences``: where its steps are not the recorded ones, a line each."""

    saga: SagaReport
    ledger: tuple[LedgerLine, ...]
    differences: tuple[str, ...]


async def run(
    bundle: Bundle, *, faults: Sequence[FaultRequest] = (), workflows: Sequence[type] = (), own_tools: bool = False
) -> Ran:
    """Run a bundle's saga again, on servers of its own, and compare its steps with the recorded ones.

    On Temporal's real dev server and not the time-skipping one, which loses a workflow whose activity ends as it is
    cancelled (https://github.com/temporalio/sdk-java/issues/2391).

    Args:
        bundle: The recorded saga.
        faults: What goes wrong in the fresh world, beside what went wrong then.
        workflows: One's own workflows.
        own_tools: Whether tools of one's own may act once more, on the system that they are set to.

    Raises:
        BundleInvalid: Its workflow was terminated or timed out, so it has no end of its own; or its tools are not
            known here, or may not act.
    """
    first = bundle.runs[0]
    events = first.history["events"]
    last = events[-1] if isinstance(events, list) else None
    if isinstance(last, dict) and any(name in last for name in _CLOSED_BY_OTHERS):
        raise BundleInvalid(f"saga {bundle.saga_id} was ended from outside: it can be checked, but not run again")
    history = first.as_history()
    then = await first.steps()
    _check_tools(then, own_tools=own_tools)
    given = history.events[0].workflow_execution_started_event_attributes.input.payloads
    args: list[JsonValue] = await pydantic_data_converter.decode(given)
    queue, others = _queues(history)
    async with temporal_local() as client, serve_world() as served, providers_at(served.url):
        world = WorldUnderTest(served.url)
        for fault in faults:
            await world.fault(**fault.model_dump(mode="json"))
        recital = Recital(await read_answers(history))
        async with AsyncExitStack() as stack:
            for name in (queue, *others):
                worker = Worker(
                    client, task_queue=name, workflows=workflows, activities=[_keep_no_record], interceptors=[recital]
                )
                await stack.enter_async_context(worker)
            saga = await client.start_workflow(first.workflow_type, args=args, id=bundle.saga_id, task_queue=queue)
            with suppress(WorkflowFailureError):
                # A workflow may let its rollback pass: its report tells it all the same.
                await saga.result()
            report: SagaReport = await saga.query("status", result_type=SagaReport)
        now = await recorded_steps((await saga.fetch_history()).events, pydantic_data_converter)
        ledger = [_line(entry, bundle.saga_id) for entry in await world.ledger()]
    return Ran(saga=report, ledger=tuple(ledger), differences=tuple(_compared(then, now)))


def _check_tools(steps: Sequence[RecordedStep], *, own_tools: bool) -> None:
    """Refuse to act on what is no fresh world."""
    for step in steps:
        tool = declared()[step.tool]
        ours = tool.forward.__module__ in {f"countermand.tools.{pack}" for pack in PACKS}
        if not (ours or own_tools or tool.effect is Effect.READ):
            raise BundleInvalid(
                f"step {step.no} calls {step.tool}, a tool of your own: it would act once more on the system that it "
                "is set to. Set it to one for tests, and say --own-tools"
            )


@activity.defn(name=APPEND)
async def _keep_no_record(_entries: JsonObject) -> None:
    """What is run again is no new decision: the audit log has the one that was."""
    raise ApplicationError("not kept", non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def _queues(history: WorkflowHistory) -> tuple[str, set[str]]:
    """The task queues of the workflow and, beside it, of its activities; the server is ours alone."""
    own = history.events[0].workflow_execution_started_event_attributes.task_queue.name
    scheduled = [one for one in history.events if one.HasField("activity_task_scheduled_event_attributes")]
    named = {one.activity_task_scheduled_event_attributes.task_queue.name for one in scheduled}
    return own, named - {own}


def _line(entry: LedgerEntry, saga_id: str) -> LedgerLine:
    number = (entry.key or "").removeprefix(f"{saga_id}:").partition(":")[0]
    return LedgerLine(
        operation=entry.operation,
        direction=entry.direction,
        kind=entry.kind,
        step_no=int(number) if number.isdecimal() else None,
        amount=entry.amount,
        currency=entry.currency,
    )


def _compared(then: list[RecordedStep], now: list[RecordedStep]) -> list[str]:
    """How the steps differ; an id of today stands for the recorded one from the result on in which it came."""
    renamed: dict[str, JsonValue] = {}
    found: list[str] = []
    for old, new in zip_longest(then, now):
        if old is None or new is None:
            one = old or new
            what = "was not recorded" if old is None else "is gone"
            found += [f"step {one.no} ({one.tool}) {what}"] if one else []
            continue
        found += [
            f"step {old.no} ({old.tool}): {field} was {was}, is {now_is}"
            for field, was, now_is in differences(_told(old), _told(new))
            if not (isinstance(was, str) and renamed.get(was) == now_is)
        ]
        came = differences(old.result, new.result)
        renamed |= {was: now_is for _, was, now_is in came if isinstance(was, str)}
    return found


def _told(step: RecordedStep) -> JsonObject:
    return step.model_dump(mode="json", include={"tool", "args", "outcome", "compensation", "undo_no"})
