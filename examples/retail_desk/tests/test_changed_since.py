"""An undo never overwrites what somebody else changed since: it leaves the row, and says so as a residual."""

from collections.abc import Callable

import pytest

from countermand.agents.scripted import ScriptCall, ScriptStep
from countermand.agents.team import Team
from countermand.saga import PlannedStep, SagaReport, SagaState
from countermand.saga.residuals import Choice, Decision, decide
from countermand.saga.revoke import revoke
from countermand.saga.types import JsonObject
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from retail_desk.database import transaction
from retail_desk.desk import Desk

from .conftest import Shop


def moving_to(street: str) -> PlannedStep:
    """A write to one row, the same for all who do it."""
    where: JsonObject = {
        "address1": street,
        "address2": "",
        "city": "Dover",
        "state": "DE",
        "country": "USA",
        "zip": "1",
    }
    return PlannedStep(tool="modify_user_address", args={"user_id": "ada_byron_1001", **where})


def street() -> str:
    """Where Ada lives, as the database has it."""
    with transaction() as connection:
        return Desk(connection, version="").user("ada_byron_1001").address.address1


@pytest.mark.usefixtures("own_shop")
async def test_what_another_saga_changed_since_is_left_and_told(
    saga_env: SagaEnv, team: Team, script: Callable[..., str]
) -> None:
    asks_first = team.model_copy(update={"approvals": {"transfer_to_human_agents": "always"}})
    first, second = moving_to("1 First Street"), moving_to("2 Second Street")
    saga = await saga_env.start_turn(
        "I move, and want to talk to somebody.",
        model=script(
            ScriptStep(calls=(ScriptCall(tool=first.tool, args=first.args),)),
            ScriptStep(calls=(ScriptCall(tool="transfer_to_human_agents", args={"summary": "She moves."}),)),
        ),
        team=asks_first,
    )

    async def waits_for_approval() -> bool:
        return bool((await saga.query("status", result_type=SagaReport)).approvals)

    await until(waits_for_approval)
    other = await saga_env.run_plan(second)
    await saga.cancel(reason="she hung up")
    result = await saga.result()

    assert (result.saga.state, other.state) == (SagaState.NEEDS_ATTENTION, SagaState.COMMITTED)
    assert [(left.step_no, left.tool) for left in result.saga.residuals] == [(1, "modify_user_address")]
    assert f"ada_byron_1001 of users was changed since, by {other.id}:1" in result.saga.residuals[0].message
    assert street() == "2 Second Street"


async def test_what_the_warehouse_changed_since_is_left_too(saga_env: SagaEnv, own_shop: Shop) -> None:
    moved = await saga_env.run_plan(moving_to("1 First Street"))
    own_shop.write("UPDATE users SET email = 'new@example.com', version = 'import 7' WHERE user_id = 'ada_byron_1001'")
    before = await own_shop.snapshot()

    report = await revoke(saga_env.client, moved.id, by="test", actor="operator:test", reason="sent back")

    assert report.state is SagaState.NEEDS_ATTENTION
    assert "was changed since, by import 7: it is left as it is" in report.residuals[0].message
    assert await own_shop.snapshot() == before


async def test_once_the_later_change_is_taken_back_the_residual_can_be_undone(
    saga_env: SagaEnv, own_shop: Shop
) -> None:
    start = await own_shop.snapshot()
    first, second = [await saga_env.run_plan(moving_to(name)) for name in ("1 First Street", "2 Second Street")]
    whose = {"by": "test", "actor": "operator:test", "reason": "sent back"}
    left = await revoke(saga_env.client, first.id, **whose)
    assert (left.state, street()) == (SagaState.NEEDS_ATTENTION, "2 Second Street")

    await revoke(saga_env.client, second.id, **whose)
    assert street() == "1 First Street"
    decided = await decide(saga_env.client, first.id, Decision(step_no=1, choice=Choice.RETRY, by="test"))

    assert decided.settled
    assert await own_shop.snapshot() == start


async def test_two_writes_of_one_saga_to_one_row_are_both_undone(saga_env: SagaEnv, own_shop: Shop) -> None:
    start = await own_shop.snapshot()

    report = await saga_env.run_plan(
        moving_to("1 First Street"),
        moving_to("2 Second Street"),
        PlannedStep(tool="get_order_details", args={"order_id": "#W9"}),
    )

    assert report.state is SagaState.COMPENSATED
    assert await own_shop.snapshot() == start
