"""A dry run: the whole plan, and nothing done."""

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.team import FOUR_AGENTS
from countermand.agents.turn import TurnInput
from countermand.testing.env import SagaEnv
from tests.agents.orders import TEXT


async def planned(env: SagaEnv, **policies: str) -> TurnResult:
    team = FOUR_AGENTS.model_copy(update={"approvals": policies})
    turn = TurnInput(text=TEXT, model="stub", team=team, confirmed=True, dry_run=True, options=env.options)
    return await env.client.execute_workflow(AgentSaga.run, turn, id=env.new_id(), task_queue=env.task_queue)


async def test_a_dry_run_tells_every_step_and_does_nothing(saga_env: SagaEnv) -> None:
    result = await planned(saga_env)

    assert [(line.agent, line.tool) for line in result.plan] == [
        ("billing", "authorize_payment"),
        ("infrastructure", "reserve_stock"),
        ("infrastructure", "provision_cluster"),
        ("infrastructure", "create_load_balancer"),
        ("infrastructure", "create_load_balancer"),
        ("infrastructure", "register_domain_route"),
        ("fulfilment", "capture_payment"),
        ("fulfilment", "send_confirmation"),
    ]
    assert await saga_env.world.ledger() == []


async def test_a_dry_run_tells_prices_undos_approvals_and_the_point_of_no_return(saga_env: SagaEnv) -> None:
    result = await planned(saga_env, capture_payment="always")

    charge, capture, mail = (result.plan[place] for place in (0, 6, 7))
    assert str(charge.price) == "185.00 USD"
    assert charge.undo == "Let the money go: release the hold, or give back what was taken since."
    assert capture.asks == "approval.always"
    assert [line.tool for line in result.plan if line.point_of_no_return] == [mail.tool]
