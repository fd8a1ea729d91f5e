"""A cancel at every moment: before, within and after each call, and during the rollback."""

import pytest

from countermand.saga import CauseKind, SagaState
from tests.saga.scripted import UndoTo
from tests.saga.stage import Played, Stage, call

PLAN = (call("hold_stock"), (call("hold_money"), call("make_cluster")), call("write_route"))
MOMENTS = [f"{no} do {edge}" for no in range(1, 5) for edge in ("begins", "ends")]


def rolled_back_by_cancel(played: Played) -> None:
    assert played.report.state is SagaState.COMPENSATED
    assert played.report.cancelled
    assert played.report.cause is not None
    assert (played.report.cause.kind, played.report.cause.message) == (CauseKind.CANCELLED, "changed my mind")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("careless", [False, True], ids=["well-behaved", "careless"])
async def test_a_cancel_undoes_everything_and_keeps_its_reason(stage: Stage, moment: str, careless: bool) -> None:
    rolled_back_by_cancel(await stage.play(*PLAN, cancel_at=(moment,), careless=careless))


@pytest.mark.parametrize("moment", ["3 undo begins", "2 undo ends", "1 undo begins"])
async def test_a_cancel_does_not_stop_a_rollback(stage: Stage, moment: str) -> None:
    played = await stage.play(*PLAN[:2], call("write_route", "refused"), cancel_at=(moment,))

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [3, 2, 1]
    assert played.report.cause is not None
    assert played.report.cause.kind is CauseKind.REFUSED


async def test_a_cancel_does_not_reach_the_undo_that_is_under_way(stage: Stage) -> None:
    played = await stage.play(
        call("hold_stock"),
        call("hold_money", undo=("hangs_before",)),
        call("write_route", "refused"),
        cancel_at=("2 undo begins",),
    )

    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 1]


async def test_a_second_cancel_does_not_stop_the_rollback_of_the_first(stage: Stage) -> None:
    played = await stage.play(*PLAN, cancel_at=("4 do begins", "2 undo begins"))

    rolled_back_by_cancel(played)
    assert played.undone[-3:] == [3, 2, 1]


async def test_a_cancel_during_an_undo_to_lets_it_end_and_then_undoes_the_rest(stage: Stage) -> None:
    played = await stage.play(
        call("hold_stock"), call("hold_money"), UndoTo(step_no=1), call("make_cluster"), cancel_at=("2 undo begins",)
    )

    rolled_back_by_cancel(played)
    assert played.undone == [2, 1]


async def test_a_call_in_flight_that_lands_although_it_was_cancelled_is_undone(stage: Stage) -> None:
    played = await stage.play(call("hold_stock"), call("hold_money", "hangs_after"), cancel_at=("2 do ends",))

    rolled_back_by_cancel(played)
    assert played.undone == [2, 1]


async def test_a_cancel_while_the_probe_asks_undoes_everything(stage: Stage) -> None:
    played = await stage.play(
        call("hold_stock"), call("hold_money", "lost_before", "lost_before"), cancel_at=("2 probe begins",)
    )

    rolled_back_by_cancel(played)
