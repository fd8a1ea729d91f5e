"""Hand-written workflow code, with its bugs."""

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from countermand.saga import Cause, CauseKind, SagaReport, SagaState
from countermand.saga.types import Outcome
from countermand.testing.waiting import until
from tests.saga.hand_written import (
    ContinuesAsNew,
    HasABug,
    HasATimeOut,
    HasTwoTransactions,
    LaunchesOneOfTwo,
    LetsItPass,
    WaitsForItsOwnActivity,
)
from tests.saga.stage import Stage


async def test_a_bug_rolls_back_and_is_reported(stage: Stage) -> None:
    played = await stage.play_workflow(HasABug)

    assert played.report.state is SagaState.COMPENSATED
    assert played.report.cause is not None
    assert (played.report.cause.kind, played.report.cause.message) == (CauseKind.BUG, "KeyError: 'colour'")
    assert played.undone == [1]


async def test_a_workflow_that_lets_it_pass_fails_with_the_report(stage: Stage) -> None:
    handle = await stage.start(LetsItPass)

    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()

    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "SagaRolledBack"
    assert failed.value.cause.details[0]["state"] == SagaState.COMPENSATED
    assert await stage.world.standing() == []


async def test_an_open_saga_does_not_continue_as_new(stage: Stage) -> None:
    played = await stage.play_workflow(ContinuesAsNew)

    assert played.report.state is SagaState.COMPENSATED
    assert played.report.cause is not None
    assert played.report.cause.kind is CauseKind.BUG


async def test_a_second_transaction_in_one_workflow_is_refused(stage: Stage) -> None:
    handle = await stage.start(HasTwoTransactions)

    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()

    assert "a workflow has one saga" in str(failed.value.cause)
    assert [effect.provider for effect in await stage.world.standing()] == ["payments"]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_step_that_was_never_launched_has_no_effect_and_counts_as_refused(stage: Stage, commits: bool) -> None:
    played = await stage.play_workflow(LaunchesOneOfTwo, commits)

    assert played.report.state is (SagaState.COMMITTED if commits else SagaState.COMPENSATED)
    assert played.report.steps[1].outcome is Outcome.REFUSED
    assert "2 do begins" not in played.reached


async def test_a_cancel_that_comes_back_as_the_error_of_an_activity_of_its_own_is_no_bug(stage: Stage) -> None:
    handle = await stage.start(WaitsForItsOwnActivity)

    async def waits() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        return any(one.activity_type.name == "nobody's" for one in pending)

    await until(waits)
    await handle.cancel(reason="changed my mind")
    report = SagaReport.model_validate(await handle.result())

    assert (report.state, report.cancelled) == (SagaState.COMPENSATED, True)
    assert report.cause == Cause(kind=CauseKind.CANCELLED, message="changed my mind")
    assert await stage.world.standing() == []


async def test_a_time_out_around_a_transaction_rolls_it_back(stage: Stage) -> None:
    played = await stage.play_workflow(HasATimeOut)

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 1]
