"""Where nothing fences off a late call, it is waited out: longer than any attempt can run."""

from dataclasses import replace

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from countermand.saga import SagaState, ToolCall
from countermand.saga.activities import HEARTBEAT_INTERVAL, UNAVAILABLE, StepInput, activities_of
from tests.saga.stage import Stage, call
from tests.saga.troubled import hold_stock
from tests.saga.unfenced import hold_unfenced


async def test_a_call_that_lands_after_its_time_out_is_found_by_the_second_question(stage: Stage) -> None:
    await stage.world.fault("inventory.reserve", "slow", nth=1, delay_s=1.5)

    played = await stage.play(call(hold_unfenced.name), call("hold_money"))

    assert played.reached[:2] == ["1 probe ends", "1 probe ends"]
    assert played.report.state is SagaState.COMMITTED
    assert played.standing == {1, 2}


async def test_a_call_that_was_cancelled_is_waited_out_before_it_is_undone(stage: Stage) -> None:
    fault = await stage.world.fault("inventory.reserve", "slow", nth=1, delay_s=0.9)

    played = await stage.play((call(hold_unfenced.name), call("hold_money")), cancel_at=("2 do ends",))

    assert await stage.world.fired(fault) == 1
    assert played.report.state is SagaState.COMPENSATED
    assert played.undone == [2, 1]


async def test_an_attempt_ends_with_its_time_before_any_heartbeat_tells_it_so() -> None:
    there = ActivityEnvironment()
    there.info = replace(there.info, start_to_close_timeout=HEARTBEAT_INTERVAL / 10)
    forward, *_ = activities_of([hold_stock])
    given = StepInput(
        call=ToolCall(saga_id="saga-late", step_no=1, key="saga-late:1"), args={"forward": ["hangs_before"]}
    )

    with pytest.raises(ApplicationError, match="no answer within") as caught:
        await there.run(forward, given)

    assert caught.value.type == UNAVAILABLE
