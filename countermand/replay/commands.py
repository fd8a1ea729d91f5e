"""What a workflow asked of Temporal, with its arguments: as the history tells it, and as the code of today asks."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NoReturn

from pydantic import JsonValue
from temporalio import workflow
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import (
    ContinueAsNewInput,
    ExecuteWorkflowInput,
    Interceptor,
    Replayer,
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)
from typing_extensions import override

from countermand.plugin import CountermandPlugin
from countermand.saga.journal import safe_digest
from countermand.saga.types import Frozen

Kind = Literal["activity", "child workflow", "result"]


class Command(Frozen):
    """One thing that a workflow asked for. ``given`` are its arguments in JSON's types; ``event`` is the history's."""

    kind: Kind
    id: str
    type: str
    given: JsonValue
    event: int | None = None

    @property
    def names(self) -> tuple[Kind, str, str]:
        """What tells commands of one history apart."""
        return self.kind, self.id, self.type

    @property
    def digest(self) -> str:
        """The canonical digest of the arguments."""
        return safe_digest(self.given)

    @property
    def shown(self) -> str:
        """The command in an error."""
        return f"{self.kind} {self.id} ({self.type})" if self.id else f"the workflow's {self.kind}"


async def recorded_commands(history: WorkflowHistory) -> list[Command]:
    """The commands that a history holds, in their order."""
    found: list[Command] = []

    async def add(kind: Kind, event: int, payloads: Payloads, id_: str = "", type_: str = "") -> None:
        given: list[JsonValue] = await pydantic_data_converter.decode(payloads.payloads)
        found.append(Command(kind=kind, id=id_, type=type_, given=given, event=event))

    for event in history.events:
        match event.event_type:
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                task = event.activity_task_scheduled_event_attributes
                await add("activity", event.event_id, task.input, task.activity_id, task.activity_type.name)
            case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                child = event.start_child_workflow_execution_initiated_event_attributes
                await add("child workflow", event.event_id, child.input, child.workflow_id, child.workflow_type.name)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
                done = event.workflow_execution_completed_event_attributes
                await add("result", event.event_id, done.result)
            case _:
                pass
    return found


async def rerun_commands(
    history: WorkflowHistory, workflows: Sequence[type] = ()
) -> tuple[list[Command], Exception | None]:
    """The commands that the code of today gives when it is led through a history, and Temporal's own complaint if any.

    Args:
        history: What to replay; nothing is called.
        workflows: Beside those of ``CountermandPlugin``.
    """
    capture = _Capture()
    replayer = Replayer(
        workflows=workflows, plugins=[CountermandPlugin()], interceptors=[capture], runtime=_quiet_runtime()
    )
    replayed = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    return capture.commands, replayed.replay_failure


@cache
def _quiet_runtime() -> Runtime:
    """The engine writes its complaint to standard output, too, where only a command's result belongs."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


class _Capture(Interceptor):
    """Notes the commands of the one workflow that is replayed."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    @override
    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        commands = self.commands

        class Outbound(WorkflowOutboundInterceptor):
            @override
            def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
                # The SDK's own id of an activity is its number.
                number = 1 + sum(command.kind == "activity" for command in commands)
                _note(commands, "activity", input.args, input.activity_id or str(number), input.activity)
                return self.next.start_activity(input)

            @override
            async def start_child_workflow(
                self, input: StartChildWorkflowInput
            ) -> workflow.ChildWorkflowHandle[Any, Any]:
                _note(commands, "child workflow", input.args, input.id, input.workflow)
                return await self.next.start_child_workflow(input)

            @override
            def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
                _note(commands, "result", input.args)
                self.next.continue_as_new(input)

        class Inbound(WorkflowInboundInterceptor):
            @override
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                self.next.init(Outbound(outbound))

            @override
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> object:
                result = await self.next.execute_workflow(input)
                _note(commands, "result", [result])
                return result

        return Inbound


def _note(commands: list[Command], kind: Kind, args: Sequence[Any], id_: str = "", type_: str = "") -> None:
    converter = pydantic_data_converter.payload_converter
    given: list[JsonValue] = converter.from_payloads(converter.to_payloads(args))
    commands.append(Command(kind=kind, id=id_, type=type_, given=given))
