"""Irreversible steps: they come last, and behind them a saga goes forward only."""

import pytest

from countermand.saga import SagaState
from tests.saga.hand_written import HasABugBehindThePivot
from tests.saga.scripted import UndoTo
from tests.saga.stage import Stage, call


async def test_a_cancel_behind_the_pivot_comes_too_late(stage: Stage) -> None:
    played = await stage.play(call("hold_money"), call("send_note"), call("look_up"), cancel_at=("3 do begins",))

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 2}


@pytest.mark.parametrize("moment", ["2 do begins", "2 do ends"])
async def test_a_cancel_while_the_mail_goes_out_lets_it_end(stage: Stage, moment: str) -> None:
    played = await stage.play(call("hold_money"), call("send_note"), cancel_at=(moment,))

    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 2}


async def test_a_cancel_while_a_mail_goes_out_that_is_refused_undoes_everything(stage: Stage) -> None:
    played = await stage.play(call("hold_money"), call("send_note", "refused"), cancel_at=("2 do begins",))

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [1]


async def test_a_mail_that_is_refused_undoes_everything(stage: Stage) -> None:
    played = await stage.play(call("hold_money"), call("hold_stock"), call("send_note", "refused"))

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 1]


async def test_a_mail_that_certainly_did_not_go_out_undoes_everything(stage: Stage) -> None:
    played = await stage.play(call("hold_money"), call("send_note", "hangs_before", "hangs_before"))

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [1]


async def test_a_mail_whose_probe_is_slower_than_the_call_may_run_is_settled(stage: Stage) -> None:
    mail = call("send_note", "hangs_before", "hangs_before", probe=("lost_before", "lost_before"))

    played = await stage.play(call("hold_money"), mail)

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [1]


async def test_a_mail_that_may_have_gone_out_undoes_nothing_and_needs_attention(stage: Stage) -> None:
    unknown = call("send_note", "lost_before", "lost_after", probe=("refused",))
    played = await stage.play(call("hold_money"), unknown)

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in played.report.residuals] == [1, 2]
    assert played.undone == []


async def test_a_mail_waits_for_the_steps_beside_it_whatever_their_order(stage: Stage) -> None:
    first = await stage.play((call("send_note"), call("hold_money"), call("hold_stock")))
    last = await stage.play((call("hold_money"), call("hold_stock"), call("send_note")))

    assert first.reached[-2:] == ["1 do ends", "ended"]
    assert last.reached[-2:] == ["3 do ends", "ended"]


async def test_a_mail_beside_a_step_that_is_refused_does_not_go_out(stage: Stage) -> None:
    played = await stage.play((call("send_note"), call("hold_money", "refused"), call("hold_stock")))

    assert played.report.state is SagaState.COMPENSATED
    assert "1 do begins" not in played.reached


async def test_two_mails_side_by_side_go_out_one_after_the_other(stage: Stage) -> None:
    played = await stage.play((call("send_note"), call("send_note"), call("hold_money")))

    assert played.report.state is SagaState.COMMITTED
    assert played.reached[-5:] == ["1 do begins", "1 do ends", "2 do begins", "2 do ends", "ended"]


async def test_a_bug_behind_the_pivot_undoes_nothing_and_needs_attention(stage: Stage) -> None:
    played = await stage.play_workflow(HasABugBehindThePivot)

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in played.report.residuals] == [1, 2]
    assert played.undone == []


async def test_there_is_no_way_back_to_before_the_pivot(stage: Stage) -> None:
    played = await stage.play(call("hold_money"), call("send_note"), UndoTo(step_no=0), call("look_up"), careless=True)

    assert played.report.state is SagaState.COMMITTED
    assert played.undone == []
