"""``async with transaction() as saga``: steps of hand-written workflow code as one saga."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

from countermand.saga.errors import SagaFailed, SagaRolledBack, ToolRefused, ToolUnavailable
from countermand.saga.executor import Saga
from countermand.saga.types import Cause, CauseKind, SagaOptions, SagaState


@asynccontextmanager
async def transaction(options: SagaOptions | None = None, *, session: str | None = None) -> AsyncGenerator[Saga]:
    """Run the body's steps as one saga: committed at its end, undone if it raises or the workflow is cancelled.

    The workflow answers the query ``status`` with the saga's report from then on, and takes decisions about approvals.
    A workflow has one saga, since the workflow's id is the saga's.

    Raises:
        SagaRolledBack: The saga did not commit; ``report`` has its ledger. After a cancel too, so that the workflow
            can end normally and say what was undone.
        ApplicationError: The workflow had a saga already.
    """
    if workflow.get_query_handler("status") is not None:
        # Temporal's own kind of error: any other would retry the workflow task for ever.
        raise ApplicationError(
            "a workflow has one saga: start another workflow for the second transaction",
            type="SecondTransaction",
            non_retryable=True,
        )
    saga = Saga(options, session=session)
    workflow.set_query_handler("status", saga.report)
    saga.approvals.serve()
    try:
        yield saga
        await saga.commit()
    except asyncio.CancelledError as error:
        cause = saga.cancel_cause()
        if cause is None:
            # Not the workflow was cancelled but a task within it (a time-out around the saga, say): its cancel goes on.
            await saga.rollback(Cause(kind=CauseKind.CANCELLED, message="the task of the saga was cancelled"))
            raise
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        await _end(saga, cause, error)
    except SagaFailed as error:
        await _end(saga, error.cause, error)
    except (ToolRefused, ToolUnavailable) as error:
        failures = [step.failure for step in saga.steps if step.failure is not None]
        await _end(saga, failures[-1] if failures else Cause(kind=CauseKind.REFUSED, message=str(error)), error)
    except (Exception, workflow.ContinueAsNewError) as error:  # noqa: BLE001 - rolled back, logged and raised anew
        # Any but Temporal's own would retry the workflow task for ever; and a saga never continues as new.
        workflow.logger.exception("the saga is rolled back because of a bug")
        # A cancel reaches a workflow's own activity, and comes back as that activity's error.
        cause = saga.cancel_cause() if is_cancelled_exception(error) else None
        await _end(saga, cause or Cause(kind=CauseKind.BUG, message=f"{type(error).__name__}: {error}"), error)


async def _end(saga: Saga, cause: Cause, error: BaseException) -> None:
    report = await saga.rollback(cause)
    if report.state is not SagaState.COMMITTED:
        raise SagaRolledBack(report) from error
