"""Calls that wait for a person: bound to their arguments, answered once, from anywhere, or too late."""

import asyncio
import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from temporalio.client import Client

from countermand.agents.agent_saga import AgentSaga
from countermand.agents.team import ORDER_TEAM, Team
from countermand.agents.turn import TurnInput
from countermand.saga import SagaState
from countermand.saga.approvals import Answer, NotApprovable, decide_approval, pending_approvals
from countermand.saga.types import JsonObject
from countermand.testing.env import SagaEnv
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker
from tests.agents.asking import asked
from tests.agents.orders import BYE, CLUSTER, COMMIT, KINDS, ORDER, QUOTE, QUOTED, RESERVE, TEXT, calls
from tests.saga.orders import standing_kinds


def asking(**policies: str) -> Team:
    return ORDER_TEAM.model_copy(update={"approvals": policies})


async def test_a_granted_call_is_made_and_the_order_goes_on(saga_env: SagaEnv) -> None:
    turn = await saga_env.start_turn(TEXT, team=asking(authorize_payment="always"))
    (request,) = await asked(turn)
    before = await saga_env.world.done()

    answered = await decide_approval(saga_env.client, request.id, granted=True, by="grace", digest=request.digest)

    assert before == ["inventory.reserve"]
    assert (answered.answer, answered.by) == (Answer.GRANTED, "grace")
    assert str(request.cost) == "185.00 USD"
    assert request.undo == "Let the money go: release the hold, or give back what was taken since."
    assert (await turn.result()).saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == KINDS


async def test_a_refused_call_is_not_made_and_the_agent_is_told_why(saga_env: SagaEnv) -> None:
    turn = await saga_env.start_turn(TEXT, team=asking(authorize_payment="always"))
    (request,) = await asked(turn)

    await decide_approval(saga_env.client, request.id, granted=False, by="grace", reason="over budget")
    result = await turn.result()

    assert result.saga.state is SagaState.COMPENSATED
    assert "the approval was refused: over budget" in result.text
    assert await saga_env.world.done() == ["inventory.reserve", "inventory.release"]


@pytest.mark.parametrize(("policy", "asks"), [("above 18500", False), ("above 18499", True), ("never", False)])
async def test_a_policy_by_amount_asks_above_it(saga_env: SagaEnv, policy: str, asks: bool) -> None:
    turn = await saga_env.start_turn(TEXT, team=asking(authorize_payment=policy))
    if asks:
        (request,) = await asked(turn)
        await decide_approval(saga_env.client, request.id, granted=True, by="grace")

    assert (await turn.result()).saga.state is SagaState.COMMITTED


async def test_the_second_answer_is_the_first_ones(saga_env: SagaEnv) -> None:
    turn = await saga_env.start_turn(TEXT, team=asking(authorize_payment="always"))
    (request,) = await asked(turn)

    first = await decide_approval(saga_env.client, request.id, granted=True, by="grace")
    second = await decide_approval(saga_env.client, request.id, granted=False, by="mallory")
    await turn.result()
    after_the_end = await decide_approval(saga_env.client, request.id, granted=False, by="mallory")

    assert first == second == after_the_end


async def test_an_answer_to_other_arguments_is_refused(saga_env: SagaEnv) -> None:
    turn = await saga_env.start_turn(TEXT, team=asking(authorize_payment="always"))
    (request,) = await asked(turn)

    with pytest.raises(NotApprovable, match="other arguments than those that were looked at"):
        await decide_approval(saga_env.client, request.id, granted=True, by="grace", digest="sha256:" + "0" * 64)
    await turn.cancel()
    await turn.result()

    assert await saga_env.world.standing() == []


async def test_a_cancel_while_a_call_waits_undoes_the_order_and_later_answers_are_too_late(saga_env: SagaEnv) -> None:
    turn = await saga_env.start_turn(TEXT, team=asking(capture_payment="always"))
    (request,) = await asked(turn)

    await turn.cancel(reason="the customer left")
    result = await turn.result()

    assert result.saga.cancelled
    assert await saga_env.world.standing() == []
    with pytest.raises(NotApprovable, match="too late, it was withdrawn"):
        await decide_approval(saga_env.client, request.id, granted=True, by="grace")


async def test_nobody_answers_in_time(skipping_env: SagaEnv) -> None:
    team = asking(authorize_payment="always").model_copy(update={"approval_within": timedelta(minutes=10)})
    result = await (await skipping_env.start_turn(TEXT, team=team)).result()

    assert result.saga.state is SagaState.COMPENSATED
    assert "the approval expired" in result.text
    with pytest.raises(NotApprovable, match="too late, it was expired"):
        await decide_approval(skipping_env.client, f"{result.saga.id}:3", granted=True, by="grace")


async def test_siblings_of_a_waiting_call_run_once_and_two_answers_go_where_they_belong(
    saga_env: SagaEnv, script: Callable[..., str]
) -> None:
    balancer: tuple[str, JsonObject] = ("create_load_balancer", {"cluster_id": "{{provision_cluster.cluster_id}}"})
    quote = ("quote_order", ORDER)
    model = script(QUOTE, RESERVE, CLUSTER, calls(balancer, quote, balancer), COMMIT, BYE)
    turn = await saga_env.start_turn(TEXT, model=model, team=asking(create_load_balancer="always"))
    first, second = await asked(turn, 2)

    await asyncio.gather(
        decide_approval(saga_env.client, first.id, granted=False, by="grace", reason="one is enough"),
        decide_approval(saga_env.client, second.id, granted=True, by="grace"),
    )
    result = await turn.result()

    outcomes = {step.no: step.outcome for step in result.saga.steps if step.tool == "create_load_balancer"}
    assert outcomes == {4: "refused", 6: "done"}
    assert [step.tool for step in result.saga.steps].count("quote_order") == 2
    assert (await saga_env.world.done()).count("cloud.create_load_balancer") == 1


async def test_a_request_outlives_its_worker(temporal_local: Client, world: WorldUnderTest) -> None:
    queue = f"test-{uuid.uuid4().hex[:12]}"
    order = TurnInput(text=TEXT, model="stub", team=asking(authorize_payment="always"), confirmed=True)
    async with providers_at(world.url), build_worker(temporal_local, task_queue=queue):
        turn = await temporal_local.start_workflow(AgentSaga.run, order, id=queue, task_queue=queue)
        await asked(turn)
    async with providers_at(world.url), build_worker(temporal_local, task_queue=queue):
        mine = [one for one in await pending_approvals(temporal_local) if one.id.startswith(queue)]
        await decide_approval(temporal_local, mine[0].id, granted=True, by="grace")
        result = await turn.result()

    assert result.saga.state is SagaState.COMMITTED
    assert (await world.done()).count("payments.authorize") == 1


async def test_an_approval_that_nobody_asked_for_is_no_approval(saga_env: SagaEnv) -> None:
    with pytest.raises(NotApprovable, match="there is no approval 'nobody/t1:3'"):
        await decide_approval(saga_env.client, "nobody/t1:3", granted=True, by="grace")


async def test_without_an_approval_an_irreversible_call_is_not_made(
    saga_env: SagaEnv, script: Callable[..., str]
) -> None:
    model = script(QUOTE, calls(("send_confirmation", QUOTED)), BYE)
    turn = await saga_env.start_turn(TEXT, model=model, team=asking(send_confirmation="irreversible"))
    (request,) = await asked(turn)

    await decide_approval(saga_env.client, request.id, granted=False, by="grace")

    assert request.undo == "nothing: it can't be undone"
    assert (await turn.result()).saga.state is SagaState.COMMITTED
    assert await saga_env.world.ledger() == []
