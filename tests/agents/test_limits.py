"""Spend stays within its limits: of a saga, a session, and of a tenant's day under concurrency."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from countermand.agents.team import ORDER_TEAM, Team, TeamLimits
from countermand.saga import SagaState
from countermand.saga.approvals import decide_approval
from countermand.saga.janitor import recover
from countermand.saga.limits import LimitsInput, LimitsWorkflow, Place, Reservation, reserve
from countermand.saga.names import LIMITS, RECOVER
from countermand.saga.types import Limit, Money
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.agents.asking import asked
from tests.agents.orders import BYE, CHARGE, COMMIT, KINDS, QUOTE, QUOTED, TEXT, calls
from tests.saga.orders import standing_kinds


def within(**limits: Limit) -> Team:
    return ORDER_TEAM.model_copy(update={"limits": TeamLimits(**limits)})


def usd(amount: int) -> Limit:
    return Limit(money=Money(amount=amount, currency="usd"))


async def held(env: SagaEnv, tenant: str) -> int:
    """How many places of the tenant's day are taken."""
    day = env.client.get_workflow_handle_for(LimitsWorkflow.run, f"{LIMITS}{tenant}/{datetime.now(UTC).date()}")
    return len(await day.query(LimitsWorkflow.held))


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"saga": usd(18499)}, "it costs 185.00 USD, and the limit of this saga leaves 184.99 USD"),
        ({"session": Limit(count=0)}, "the limit of 0 orders of this session is reached"),
        ({"day": usd(100)}, "leaves 1.00 USD, and this costs 185.00 USD"),
        ({"day": Limit(money=Money(amount=10**9, currency="eur"))}, "can't be held against a price of 185.00 USD"),
    ],
)
async def test_an_order_beyond_a_limit_is_not_placed_and_says_why(
    saga_env: SagaEnv, limits: dict[str, Limit], why: str
) -> None:
    tenant = saga_env.task_queue
    result = await (await saga_env.start_turn(TEXT, team=within(**limits), tenant=tenant)).result()

    assert why in result.text
    assert any(verdict.rule.startswith("limit.") and verdict.verdict == "refused" for verdict in result.verdicts)
    assert await saga_env.world.standing() == []


async def test_an_order_whose_approval_comes_long_after_its_day_is_not_counted_in_an_empty_one(
    saga_env: SagaEnv,
) -> None:
    long_ago = LimitsInput(tenant=saga_env.task_queue, day=datetime.now(UTC).date() - timedelta(days=4))
    wanted = Reservation(key="late:1", price=Money(amount=1, currency="usd"), limit=Limit(count=10))

    made = await reserve(saga_env.client, long_ago, wanted, task_queue=saga_env.task_queue)

    assert made.place is Place.FULL
    assert "is long over: order again" in made.reason


async def test_an_order_within_its_limits_is_placed(saga_env: SagaEnv) -> None:
    limits = within(saga=usd(18500), session=usd(18500), day=usd(18500))
    result = await (await saga_env.start_turn(TEXT, team=limits, tenant=saga_env.task_queue)).result()

    assert result.saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == KINDS


async def test_a_sessions_orders_are_counted_over_its_turns(saga_env: SagaEnv) -> None:
    talk = saga_env.chat(team=within(session=Limit(count=1)))

    first = await talk.say(TEXT, confirmed=True)
    second = await talk.say(TEXT, confirmed=True)

    assert first.saga.state is SagaState.COMMITTED
    assert "the limit of 1 orders of this session is reached" in second.text
    assert await standing_kinds(saga_env) == KINDS


async def test_of_fifty_orders_at_once_a_limit_of_ten_lets_exactly_ten_through(saga_env: SagaEnv) -> None:
    tenant, team = saga_env.task_queue, within(day=Limit(count=10))
    texts = [TEXT.replace("ada.example.dev", f"host-{number}.example.dev") for number in range(50)]
    turns = [await saga_env.start_turn(text, team=team, tenant=tenant) for text in texts]
    results = await asyncio.gather(*(turn.result() for turn in turns))

    states = [result.saga.state for result in results]
    refused = [result for result in results if result.saga.state is SagaState.COMPENSATED]
    assert (states.count(SagaState.COMMITTED), len(refused)) == (10, 40)
    assert all("the limit of 10 orders on" in result.text for result in refused)
    assert await standing_kinds(saga_env) == sorted(KINDS * 10)
    assert await held(saga_env, tenant) == 10


async def test_an_order_that_is_undone_gives_its_place_back(saga_env: SagaEnv) -> None:
    tenant, team = saga_env.task_queue, within(day=Limit(count=1))
    await saga_env.world.fault("dns.register", "http_503")
    failed = await (await saga_env.start_turn(TEXT, team=team, tenant=tenant)).result()
    left = await held(saga_env, tenant)
    await saga_env.world.clear_faults()

    placed = await (await saga_env.start_turn(TEXT, team=team, tenant=tenant)).result()

    assert (failed.saga.state, left) == (SagaState.COMPENSATED, 0)
    assert placed.saga.state is SagaState.COMMITTED


async def test_a_terminated_order_gives_its_place_back_by_its_recovery(saga_env: SagaEnv) -> None:
    tenant, team = saga_env.task_queue, within(day=Limit(count=1))
    fault = await saga_env.world.fault("dns.register", "hang")
    turn = await saga_env.start_turn(TEXT, team=team, tenant=tenant)
    await until(lambda: saga_env.world.fired(fault))
    before = await held(saga_env, tenant)

    await turn.terminate("a mistake")
    await recover(saga_env.client, turn.id, saga_env.options)
    await saga_env.client.get_workflow_handle(f"{RECOVER}{turn.id}").result()

    assert (before, await held(saga_env, tenant)) == (1, 0)
    assert await saga_env.world.standing() == []


async def test_the_place_of_a_declined_card_is_the_next_ones(saga_env: SagaEnv, script: Callable[..., str]) -> None:
    declined = calls(("authorize_payment", QUOTED | {"card_token": "tok_decline"}))
    model = script(QUOTE, declined, CHARGE, COMMIT, BYE)
    tenant, team = saga_env.task_queue, within(day=Limit(count=1))
    result = await (await saga_env.start_turn(TEXT, model=model, team=team, tenant=tenant)).result()

    assert [step.tool for step in result.saga.steps].count("reserve_limit") == 1
    assert await standing_kinds(saga_env) == ["payment"]


async def test_a_place_that_was_given_back_is_no_other_orders(saga_env: SagaEnv, script: Callable[..., str]) -> None:
    declined = calls(("authorize_payment", QUOTED | {"card_token": "tok_decline"}))
    back = calls(("undo_to", {"step_no": 1}))
    model = script(QUOTE, declined, back, CHARGE, COMMIT, BYE)
    tenant, team = saga_env.task_queue, within(day=Limit(count=1))
    result = await (await saga_env.start_turn(TEXT, model=model, team=team, tenant=tenant)).result()

    assert result.saga.state is SagaState.COMMITTED
    assert "payments.authorize" in await saga_env.world.done()
    assert await held(saga_env, tenant) == 1


async def test_what_was_ordered_in_another_currency_is_not_added_up(saga_env: SagaEnv) -> None:
    day = LimitsInput(tenant=saga_env.task_queue, day=datetime.now(UTC).date())
    euros = Reservation(key="a:1", price=Money(amount=900, currency="eur"), limit=Limit(count=5))
    dollars = Reservation(key="b:1", price=Money(amount=100, currency="usd"), limit=usd(100))

    taken = [await reserve(saga_env.client, day, one, task_queue=saga_env.task_queue) for one in (euros, dollars)]

    assert [one.place for one in taken] == [Place.HELD, Place.HELD]


async def test_an_order_that_a_person_refuses_leaves_nothing_to_commit(
    saga_env: SagaEnv, script: Callable[..., str]
) -> None:
    team = within(day=Limit(count=1)).model_copy(update={"approvals": {"authorize_payment": "always"}})
    model = script(QUOTE, CHARGE, BYE)
    turn = await saga_env.start_turn(TEXT, model=model, team=team, tenant=saga_env.task_queue)
    (request,) = await asked(turn)
    await decide_approval(saga_env.client, request.id, granted=False, by="grace")
    result = await turn.result()

    assert (result.saga.state, result.text) == (SagaState.COMMITTED, "Done.")
    assert await saga_env.world.ledger() == []
