"""Revoke: a committed saga is countermanded later, by its compensations in reverse and under the same undo keys."""

from pydantic import Field
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from countermand.saga.errors import CountermandError
from countermand.saga.executor import Saga
from countermand.saga.history import RecordedStep
from countermand.saga.ledger import Step
from countermand.saga.names import AUDIT, RECOVER, REVOKE
from countermand.saga.reading import all_steps, described, ended_as
from countermand.saga.types import Cause, CauseKind, Effect, Frozen, SagaOptions, SagaReport, SagaState


class NotRevocable(CountermandError):
    """The saga did not commit, or there is none of that id; nothing was done."""


class RevokeInput(Frozen):
    """A committed saga, who wants it undone and why."""

    saga_id: str
    by: str
    actor: str
    reason: str
    steps: tuple[RecordedStep, ...] = Field(min_length=1)
    options: SagaOptions = SagaOptions()


class Revocation(Frozen):
    """Who asked for a revocation, and its report once it has ended."""

    by: str
    report: SagaReport | None


@workflow.defn
class RevokeSaga:
    """Undoes a committed saga; what is irreversible is reported as residuals."""

    @workflow.init
    def __init__(self, wanted: RevokeInput) -> None:
        steps = [Step.of(step) for step in wanted.steps]
        self._saga = Saga(wanted.options, recovered=(wanted.saga_id, steps))
        self._saga.journal.revoked(wanted.actor, wanted.reason)

    @workflow.run
    async def run(self, wanted: RevokeInput) -> SagaReport:
        """Undo the saga; answers its ledger."""
        return await self._saga.revoke(Cause(kind=CauseKind.REVOKED, message=wanted.reason))

    @workflow.query
    def status(self) -> SagaReport:
        """The ledger as it stands now."""
        return self._saga.report()


async def revoke(client: Client, saga_id: str, *, by: str, actor: str, reason: str) -> SagaReport:
    """Countermand a committed saga and wait for its end; twice is once.

    Args:
        client: Connected with ``CountermandPlugin``.
        saga_id: The saga.
        by: What asked for it: tells a repeated wish from another's.
        actor: Who asked for it, as the audit log names people (``operator:NAME`` or ``customer``).
        reason: Why.

    Raises:
        NotRevocable: It did not commit, or did nothing that could be undone.
    """
    steps = await _committed(client, saga_id)
    await _start(client, RevokeInput(saga_id=saga_id, by=by, actor=actor, reason=reason, steps=tuple(steps)))
    return await client.get_workflow_handle_for(RevokeSaga.run, f"{REVOKE}{saga_id}").result()


async def revocable(client: Client, saga_id: str) -> bool:
    """Whether a saga committed and did something that can be undone."""
    try:
        await _committed(client, saga_id)
    except NotRevocable:
        return False
    return True


async def revocation(client: Client, saga_id: str) -> Revocation | None:
    """A saga's revocation, or None if nobody asked for one."""
    handle = client.get_workflow_handle_for(RevokeSaga.run, f"{REVOKE}{saga_id}")
    try:
        execution = await handle.describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    ended = execution.status is WorkflowExecutionStatus.COMPLETED
    by: str = await execution.memo_value("by", "")
    return Revocation(by=by, report=await handle.result() if ended else None)


async def resume_revocation(client: Client, saga_id: str) -> bool:
    """Start a revocation again that was terminated or timed out; answers whether there was one to start."""
    made = await revocation(client, saga_id)
    if made is None or made.report is not None:
        return False
    steps = await _committed(client, saga_id)
    return await _start(
        client, RevokeInput(saga_id=saga_id, by=made.by, actor="janitor", reason="resumed", steps=tuple(steps))
    )


async def _start(client: Client, wanted: RevokeInput) -> bool:
    saga = await client.get_workflow_handle(wanted.saga_id).describe()
    audited = await described(client, f"{AUDIT}{wanted.saga_id}") is not None
    try:
        await client.start_workflow(
            RevokeSaga.run,
            wanted.model_copy(update={"options": SagaOptions(audit=audited)}),
            id=f"{REVOKE}{wanted.saga_id}",
            task_queue=saga.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            memo={"by": wanted.by},
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


async def _committed(client: Client, saga_id: str) -> list[RecordedStep]:
    """The steps of a committed saga that had effects."""
    saga, recovery = await described(client, saga_id), await described(client, f"{RECOVER}{saga_id}")
    if saga is None:
        raise NotRevocable(f"there is no saga {saga_id!r}")
    if WorkflowExecutionStatus.RUNNING in {saga.status, recovery.status if recovery else None}:
        raise NotRevocable(f"saga {saga_id!r} is still running: cancel it instead")
    state = ended_as(saga, recovery)
    if state != SagaState.COMMITTED:
        raise NotRevocable(f"saga {saga_id!r} is {state}: only a committed saga can be revoked")
    steps = [step for step in await all_steps(client, saga_id) if Step.of(step).tool.effect is not Effect.READ]
    if not any(Step.of(step).tool.effect is Effect.COMPENSABLE for step in steps):
        raise NotRevocable(f"saga {saga_id!r} did nothing that could be undone")
    return steps
