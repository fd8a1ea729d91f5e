"""``CountermandPlugin``: adds sagas and their tools to any Temporal client and worker in one line."""

import dataclasses
from collections.abc import Iterable

from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from countermand.saga import PlannedSaga
from countermand.saga.activities import activities_of
from countermand.saga.tool import AnyTool, declared


class CountermandPlugin(SimplePlugin):
    """Sagas, their tools' activities, and the settings that both need.

    Give it to the client (its data converter) and to the worker; a worker takes its client's plugins over by itself.

    Args:
        tools: The tools to serve; all that are declared in this process if None.
    """

    def __init__(self, tools: Iterable[AnyTool] | None = None) -> None:
        served = list(declared().values() if tools is None else tools)
        super().__init__(
            "countermand.CountermandPlugin",
            data_converter=pydantic_data_converter,
            workflows=[PlannedSaga],
            activities=activities_of(served),
            workflow_runner=_pass_through,
        )


def _pass_through(runner: WorkflowRunner | None) -> WorkflowRunner:
    """Let our modules pass the sandbox: two copies of one break ``except``, context variables and counters."""
    if isinstance(runner, SandboxedWorkflowRunner):
        passed = runner.restrictions.with_passthrough_modules(
            "countermand", "pydantic", "pydantic_core", "annotated_types"
        )
        return dataclasses.replace(runner, restrictions=passed)
    if runner is None:
        raise ValueError("the worker gave the plugin no workflow runner")
    return runner
