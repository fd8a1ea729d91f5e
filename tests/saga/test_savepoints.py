"""Savepoints: back to a step, and another way from there, in the same saga."""

import pytest

from countermand.saga import SagaState
from tests.saga.hand_written import UndoesBesideAFailure
from tests.saga.scripted import UndoTo
from tests.saga.stage import Stage, call


async def test_the_steps_behind_a_savepoint_are_undone_and_another_way_is_gone(stage: Stage) -> None:
    played = await stage.play(
        call("hold_money"), call("hold_stock"), call("make_cluster"), UndoTo(step_no=1), call("write_route")
    )

    assert played.report.state is SagaState.COMMITTED
    assert played.undone == [3, 2]
    assert played.standing == {1, 4}


async def test_what_was_undone_at_a_savepoint_is_not_undone_again(stage: Stage) -> None:
    played = await stage.play(
        call("hold_money"), call("hold_stock"), UndoTo(step_no=1), call("make_cluster"), call("write_route", "refused")
    )

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 3, 1]
    assert played.reached.count("2 undo begins") == 1


async def test_a_savepoint_whose_undo_fails_fails_the_saga(stage: Stage) -> None:
    played = await stage.play(
        call("hold_money"), call("hold_stock", undo=("refused", "refused")), UndoTo(step_no=1), call("make_cluster")
    )

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in played.report.residuals] == [2]
    assert played.undone == [1]


@pytest.mark.parametrize("step_no", [0, 1, 2])
async def test_a_savepoint_may_be_used_twice(stage: Stage, step_no: int) -> None:
    back = UndoTo(step_no=step_no)
    played = await stage.play(call("hold_money"), call("hold_stock"), back, back, call("make_cluster"))

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {*range(1, step_no + 1), 3}


async def test_a_kept_step_that_fails_while_later_ones_are_undone_fails_the_saga(stage: Stage) -> None:
    played = await stage.play_workflow(UndoesBesideAFailure)

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2]


async def test_an_undo_that_fails_on_the_way_back_is_tried_again_before_what_was_done_earlier(stage: Stage) -> None:
    stuck = call("hold_money", undo=("lost_before", "lost_before", "lost_before"))
    played = await stage.play(call("hold_stock"), stuck, UndoTo(step_no=0))

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in played.report.residuals] == [2]
    undos = [moment for moment in played.reached if moment.endswith("undo begins")]
    assert undos == ["2 undo begins"] * 6 + ["1 undo begins"]
