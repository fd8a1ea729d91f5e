"""What a forward call may come to, and what follows for its saga."""

import pytest

from countermand.saga import CauseKind, SagaState
from countermand.saga.types import Compensation, Outcome
from tests.saga.stage import Stage, call
from tests.saga.troubled import Trouble


async def test_steps_are_undone_in_reverse(stage: Stage) -> None:
    played = await stage.play(
        call("hold_stock"), call("hold_money"), call("make_cluster"), call("write_route", "refused")
    )

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [3, 2, 1]
    assert played.report.cause is not None
    assert (played.report.cause.kind, played.report.cause.step_no) == (CauseKind.REFUSED, 4)


async def test_a_refused_step_is_not_undone(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "refused"))

    assert "2 undo begins" not in played.reached
    assert played.report.steps[1].outcome is Outcome.REFUSED


async def test_a_saga_that_goes_well_commits_and_its_effects_stand(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money"), call("send_note"))

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 2, 3}


@pytest.mark.parametrize("trouble", ["busy", "lost_before", "breaks_before", "hangs_before"])
async def test_a_call_that_failed_before_its_effect_is_tried_again(stage: Stage, trouble: Trouble) -> None:
    played = await stage.play(call("hold_money", trouble), call("hold_stock"))

    assert played.report.state is SagaState.COMMITTED
    assert played.reached.count("1 do begins") == 2


@pytest.mark.parametrize("trouble", ["lost_after", "breaks_after", "hangs_after"])
async def test_a_call_whose_answer_was_lost_is_found_by_its_probe_and_not_made_again(
    stage: Stage, trouble: Trouble
) -> None:
    played = await stage.play(call("hold_money", trouble), call("hold_stock"))

    assert played.report.state is SagaState.COMMITTED
    assert played.reached.count("1 do begins") == 1


async def test_spent_retries_fail_the_saga_and_leave_nothing(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "lost_before", "lost_before"))

    assert played.report.state is SagaState.COMPENSATED
    assert played.report.cause is not None
    assert played.report.cause.kind is CauseKind.UNAVAILABLE
    assert played.undone == [1]


async def test_an_unknown_outcome_that_landed_is_done(stage: Stage) -> None:
    played = await stage.play(call("hold_money", "lost_before", "lost_after"), call("hold_stock"))

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 2}


async def test_an_unknown_outcome_that_nobody_can_tell_is_undone(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "lost_before", "lost_after", probe=("refused",)))

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 1]


async def test_the_undo_of_what_never_happened_is_a_no_op(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "lost_before", "lost_before", probe=("refused",)))

    assert played.report.steps[1].compensation is Compensation.NOOP
    assert played.undone == [1]


async def test_a_call_that_comes_after_its_undo_is_refused_by_the_tombstone(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "late", "late"))

    assert played.report.state is SagaState.COMPENSATED
    assert "2 late call is refused" in played.reached


async def test_an_attempt_that_timed_out_is_not_forgotten_when_a_later_one_fails_at_once(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "late", "lost_before"))

    assert played.report.steps[1].outcome is Outcome.UNKNOWN
    assert "2 late call is refused" in played.reached


async def test_an_attempt_that_timed_out_is_not_forgotten_when_a_later_one_is_refused(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "late", "refused"))

    assert played.report.steps[1].outcome is Outcome.UNKNOWN
    assert "2 late call is refused" in played.reached


async def test_a_probe_that_is_refused_does_not_say_that_the_call_was(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "lost_after", probe=("none", "refused")))

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 2}


async def test_a_tool_that_may_fail_leaves_its_saga_to_go_on(stage: Stage) -> None:
    played = await stage.play(
        call("hold_money"),
        call("try_stock", "lost_before", "lost_after", probe=("refused",)),
        call("hold_stock"),
        careless=True,
    )

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 3}
    assert played.undone == [2]


async def test_a_tool_that_may_fail_but_can_not_be_undone_fails_its_saga(stage: Stage) -> None:
    played = await stage.play(
        call("hold_money"),
        call("try_stock", "lost_before", "lost_after", probe=("refused",), undo=("refused", "refused")),
        call("hold_stock"),
        careless=True,
    )

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in played.report.residuals] == [2]
    assert played.undone == [1]


async def test_an_undo_is_tried_again_and_has_its_effect_once(stage: Stage) -> None:
    played = await stage.play(
        call("hold_stock", undo=("lost_before",)),
        call("hold_money", undo=("lost_after",)),
        call("make_cluster", "refused"),
    )

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 1]


async def test_an_undo_that_fails_for_good_is_the_only_residual_and_the_others_run(stage: Stage) -> None:
    played = await stage.play(
        call("hold_stock"), call("hold_money", undo=("refused",)), call("make_cluster"), call("write_route", "refused")
    )

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in played.report.residuals] == [2]
    assert "undo_hold_money failed" in played.report.residuals[0].message
    assert played.undone == [3, 1]
    assert played.standing == {2}
