"""Recovery: a saga whose workflow was terminated or timed out is undone from its history by another workflow."""

from pydantic import Field
from temporalio import workflow

from countermand.saga.executor import Saga
from countermand.saga.history import RecordedStep
from countermand.saga.ledger import Step
from countermand.saga.types import Cause, CauseKind, Frozen, SagaOptions, SagaReport, SagaState


class RecoveryInput(Frozen):
    """A saga without a workflow, and what its history says was done."""

    saga_id: str
    reason: str
    closed_as: str
    found: SagaState
    steps: tuple[RecordedStep, ...] = Field(min_length=1)
    options: SagaOptions = SagaOptions()


@workflow.defn
class RecoverySaga:
    """Undoes what a gone workflow left, under the same keys, so that nothing is undone twice."""

    @workflow.init
    def __init__(self, lost: RecoveryInput) -> None:
        steps = [Step.of(step) for step in lost.steps]
        self._saga = Saga(lost.options, recovered=(lost.saga_id, steps))
        self._saga.journal.found(lost.closed_as, lost.found)
        self._saga.journal.taken_over(steps)

    @workflow.run
    async def run(self, lost: RecoveryInput) -> SagaReport:
        """Roll the saga back; answers its ledger."""
        return await self._saga.rollback(Cause(kind=CauseKind.TERMINATED, message=lost.reason))

    @workflow.query
    def status(self) -> SagaReport:
        """The ledger as it stands now."""
        return self._saga.report()
