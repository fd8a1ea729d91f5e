import asyncio

import pytest

from countermand.saga import SagaReport, SagaState
from countermand.saga.janitor import SweepInput, recover, sweep
from countermand.saga.names import RESIDUALS
from countermand.saga.reading import read_saga
from countermand.saga.residuals import Choice, Decision, NoSuchResidual, ResidualsWorkflow, decide
from countermand.saga.types import Compensation
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.saga.orders import AUTHORIZE, ORDER_PLAN, ROUTE, standing_kinds


async def left_route(env: SagaEnv) -> SagaReport:
    """An order that failed at its capture while DNS can't be undone."""
    await env.world.fault("payments.capture", "decline")
    await env.world.fault("dns.unregister", "http_503")
    return await env.run_plan(*ORDER_PLAN)


def decision(choice: Choice, reason: str = "") -> Decision:
    return Decision(step_no=ROUTE, choice=choice, by="grace", reason=reason)


async def test_an_undo_that_stays_failed_stops_no_other_and_is_the_only_residual(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)

    assert report.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in report.residuals] == [ROUTE]
    assert await standing_kinds(saga_env) == ["route"]
    assert {step.no: step.compensation for step in report.steps}[ROUTE] is Compensation.FAILED


async def test_a_retry_mends_the_residual_when_the_provider_is_back(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)
    still_down = await decide(saga_env.client, report.id, decision(Choice.RETRY))
    await saga_env.world.clear_faults()

    mended = await decide(saga_env.client, report.id, decision(Choice.RETRY))

    assert (still_down.settled, mended.settled) == (False, True)
    assert await saga_env.world.standing() == []
    detail = await read_saga(saga_env.client, report.id)
    assert detail.state is SagaState.COMPENSATED
    assert detail.residuals == ()


async def test_the_same_decision_twice_is_taken_once(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)
    await saga_env.world.clear_faults()

    first, second = await asyncio.gather(
        *(decide(saga_env.client, report.id, decision(Choice.RETRY)) for _ in range(2))
    )
    third = await decide(saga_env.client, report.id, decision(Choice.RETRY))

    assert first == second == third
    assert (await saga_env.world.done()).count("dns.unregister") == 1


async def test_giving_up_needs_a_reason_and_leaves_the_saga_in_need_of_attention(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)
    with pytest.raises(NoSuchResidual, match="--reason"):
        await decide(saga_env.client, report.id, decision(Choice.GIVE_UP))

    given_up = await decide(saga_env.client, report.id, decision(Choice.GIVE_UP, "the zone was sold"))

    assert given_up.settled
    detail = await read_saga(saga_env.client, report.id)
    assert detail.state is SagaState.NEEDS_ATTENTION
    assert [residual.step_no for residual in detail.residuals] == [ROUTE]


async def left_route_and_hold(env: SagaEnv) -> SagaReport:
    """As ``left_route``, while the hold on the card can't be undone either."""
    await env.world.fault("payments.void", "http_503")
    return await left_route(env)


async def test_residuals_whose_workflow_is_terminated_are_held_on_with_what_was_decided(saga_env: SagaEnv) -> None:
    report = await left_route_and_hold(saga_env)
    await decide(saga_env.client, report.id, decision(Choice.GIVE_UP, "the zone was sold"))
    held = saga_env.client.get_workflow_handle_for(ResidualsWorkflow.run, f"{RESIDUALS}{report.id}")
    await held.terminate("to clear up")

    async def swept() -> bool:
        return report.id in (await sweep(saga_env.client, SweepInput(saga_id=report.id))).recovered

    await until(swept)
    assert not await recover(saga_env.client, report.id)

    await saga_env.world.clear_faults()
    hold = Decision(step_no=AUTHORIZE, choice=Choice.RETRY, by="grace")
    assert (await decide(saga_env.client, report.id, hold)).settled
    assert [one.decision.step_no for one in (await held.result()).decisions] == [ROUTE, AUTHORIZE]
    assert await standing_kinds(saga_env) == ["route"]


async def test_a_decision_about_residuals_whose_workflow_was_terminated_is_taken(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)
    await saga_env.client.get_workflow_handle(f"{RESIDUALS}{report.id}").terminate("to clear up")
    await saga_env.world.clear_faults()

    assert (await decide(saga_env.client, report.id, decision(Choice.RETRY))).settled
    assert await saga_env.world.standing() == []


async def test_a_cancel_does_not_let_residuals_go(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)
    held = saga_env.client.get_workflow_handle_for(ResidualsWorkflow.run, f"{RESIDUALS}{report.id}")
    await held.cancel()
    await saga_env.world.clear_faults()

    assert (await decide(saga_env.client, report.id, decision(Choice.RETRY))).settled
    assert (await held.result()).saga.state is SagaState.COMPENSATED
    assert await saga_env.world.standing() == []


async def test_a_step_that_left_nothing_has_nothing_to_decide(saga_env: SagaEnv) -> None:
    report = await left_route(saga_env)

    with pytest.raises(NoSuchResidual, match="step 2 left nothing"):
        await decide(saga_env.client, report.id, Decision(step_no=2, choice=Choice.RETRY, by="grace"))
    with pytest.raises(NoSuchResidual, match="no residuals"):
        await decide(saga_env.client, "no-such-saga", decision(Choice.RETRY))

    await decide(saga_env.client, report.id, decision(Choice.DONE_BY_HAND))
