"""A bundle: one saga as its histories tell it, in one file.

The history is the ledger, so it holds all that a replay needs: the start input, each model exchange (the input and the
result of ``think``), the world's answers (the results and failures of the tools' activities), and every id.
"""

from pathlib import Path
from typing import Literal

from pydantic import JsonValue, TypeAdapter, ValidationError
from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter

from countermand.encryption import decrypt_within
from countermand.saga.errors import CountermandError
from countermand.saga.history import RecordedStep, recorded_steps
from countermand.saga.names import beside
from countermand.saga.reading import NoSuchSaga, described, quoted
from countermand.saga.tool import declared
from countermand.saga.types import Frozen, JsonObject

FORMAT = 1

_LEFT_OUT = frozenset({"stackTrace", "identity", "taskId", "requestId", "userMetadata", "workerVersion"})
"""Fields of a history that name machines, processes and paths, or are new each time; a replay needs none of them."""


class BundleInvalid(CountermandError):
    """A file is no bundle; the message names the file, the field and the reason."""


class Run(Frozen):
    """One run of one workflow. ``history`` is in Temporal's own JSON, as its command line and web page show it."""

    workflow_id: str
    workflow_type: str
    history: JsonObject

    def as_history(self) -> WorkflowHistory:
        """The history as the Replayer takes it."""
        return WorkflowHistory.from_json(self.workflow_id, {**self.history})

    async def steps(self) -> list[RecordedStep]:
        """The saga's ledger as this run tells it.

        Raises:
            BundleInvalid: A step calls a tool that this process does not know.
        """
        steps = await recorded_steps(self.as_history().events, pydantic_data_converter)
        for step in steps:
            if step.tool not in declared():
                raise BundleInvalid(
                    f"saga {step.call.saga_id}: step {step.no} calls {step.tool}, and there is no such tool here: "
                    "name the module that declares it in COUNTERMAND_TOOLS"
                )
        return steps


class Bundle(Frozen):
    """A saga: all runs of its own workflow, then of its recovery, its revocation and of what holds its residuals."""

    format: Literal[1] = FORMAT
    saga_id: str
    runs: tuple[Run, ...]


async def record(client: Client, saga_id: str) -> Bundle:
    """Read a saga's bundle from Temporal.

    Raises:
        NoSuchSaga: There is no workflow of that id (any more).
    """
    runs: list[Run] = []
    for name in beside(saga_id):
        newest = await described(client, name)
        if newest is None:
            continue
        known = [run async for run in client.list_workflows(f"WorkflowId = {quoted(name)}")]
        # Visibility lags: the newest run may not be listed yet.
        ids = [run.run_id for run in sorted(known, key=lambda run: run.start_time) if run.run_id != newest.run_id]
        for run_id in (*ids, newest.run_id):
            history = await client.get_workflow_handle(name, run_id=run_id).fetch_history()
            if codec := client.data_converter.payload_codec:
                for event in history.events:
                    await decrypt_within(event, codec)
            plain = _only_needed(_OBJECT.validate_json(history.to_json()))
            runs.append(Run(workflow_id=name, workflow_type=newest.workflow_type, history=plain))
    if not runs:
        raise NoSuchSaga(f"there is no saga {saga_id!r}: 'countermand saga list' shows which there are")
    return Bundle(saga_id=saga_id, runs=tuple(runs))


def load(path: Path) -> Bundle:
    """Read a bundle's file.

    Raises:
        BundleInvalid: It can't be read, or is no bundle.
    """
    try:
        return Bundle.model_validate_json(path.read_text("utf-8"))
    except OSError as error:
        raise BundleInvalid(f"bundle {path}: {error.strerror}: record it with 'countermand replay record'") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise BundleInvalid(f"bundle {path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def save(bundle: Bundle, path: Path) -> None:
    """Write a bundle's file."""
    path.write_text(bundle.model_dump_json() + "\n", "utf-8")


def _only_needed(history: JsonObject) -> JsonObject:
    return {name: _plain(value) for name, value in history.items() if name not in _LEFT_OUT}


def _plain(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _only_needed(value) if isinstance(value, dict) else value


_OBJECT = TypeAdapter(JsonObject)
