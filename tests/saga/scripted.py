"""Workflows of the tests' own: hand-written code around ``transaction()``, well-behaved and not."""

import asyncio

from temporalio import workflow

from countermand.saga import SagaReport, SagaRolledBack, transaction
from countermand.saga.tool import declared
from countermand.saga.types import Frozen, JsonObject


class Do(Frozen):
    """Steps that run side by side."""

    steps: tuple[tuple[str, JsonObject], ...]


class UndoTo(Frozen):
    """Back to a savepoint: the step that is kept last."""

    step_no: int


class Script(Frozen):
    """What the workflow does. ``careless`` code swallows whatever an action raises, cancellation included."""

    actions: tuple[Do | UndoTo, ...]
    careless: bool = False


@workflow.defn
class ScriptedSaga:
    """Does what its script says, as one saga."""

    @workflow.run
    async def run(self, script: Script) -> SagaReport:
        try:
            async with transaction() as saga:
                for action in script.actions:
                    try:
                        if isinstance(action, UndoTo):
                            await saga.undo_to(action.step_no)
                            continue
                        tools = declared()
                        steps = [saga.register(tools[name], tools[name].args(**args)) for name, args in action.steps]
                        for step in steps:
                            saga.launch(step)
                        await asyncio.gather(*(saga.finish(step) for step in steps))
                    except (Exception, asyncio.CancelledError):
                        if not script.careless:
                            raise
        except SagaRolledBack as error:
            return error.report
        return saga.report()
