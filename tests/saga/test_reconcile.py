import asyncio
from collections.abc import Awaitable, Callable
from itertools import cycle, islice

from countermand.saga import Plan, PlannedSaga, PlannedStep, SagaState
from countermand.saga.janitor import recover
from countermand.saga.names import RECOVER
from countermand.saga.reading import read_saga
from countermand.saga.reconcile import Finding, FindingKind, mend, reconcile
from countermand.saga.recovery import RecoverySaga
from countermand.saga.residuals import Choice, Decision, decide
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.saga.orders import AUTHORIZE, CAPTURE, QUOTE, order_plan

Plant = Callable[[SagaEnv, str, str], Awaitable[None]]


async def good_orders(env: SagaEnv, number: int) -> list[str]:
    at_a_time = asyncio.Semaphore(8)

    async def one() -> str:
        async with at_a_time:
            saga_id = env.new_id("order")
            plan = Plan(steps=order_plan(f"{saga_id}.example.dev"))
            done = await env.client.execute_workflow(PlannedSaga.run, plan, id=saga_id, task_queue=env.task_queue)
            assert done.state is SagaState.COMMITTED
            return saga_id

    return await asyncio.gather(*(one() for _ in range(number)))


async def stray_reservation(env: SagaEnv, stray: str, _good: str) -> None:
    await env.world.call("inventory.reserve", f"{stray}:2", plan="small", reference="quote-1")


async def stray_hold(env: SagaEnv, stray: str, _good: str) -> None:
    await env.world.call("payments.authorize", f"{stray}:3", amount=100, currency="eur")


async def stray_charge(env: SagaEnv, stray: str, _good: str) -> None:
    held = await env.world.call("payments.authorize", f"{stray}:3", amount=100, currency="eur")
    await env.world.call("payments.capture", f"{stray}:8", payment_id=held["id"])


async def stray_cluster(env: SagaEnv, stray: str, _good: str) -> None:
    await env.world.call("cloud.create_cluster", f"{stray}:4", plan="small", region="eu-west")


async def balancer_that_its_saga_does_not_keep(env: SagaEnv, _stray: str, good: str) -> None:
    clusters = (await env.world.state()).cloud.clusters
    mine = next(cluster.id for cluster in clusters if cluster.key.startswith(f"{good}:"))
    await env.world.call("cloud.create_load_balancer", f"{good}:77", cluster_id=mine)


async def stray_route(env: SagaEnv, stray: str, _good: str) -> None:
    await env.world.call("dns.register", f"{stray}:7", name=f"{stray}.example.dev", values=["198.18.0.1"])


async def stray_mail(env: SagaEnv, stray: str, _good: str) -> None:
    await env.world.call("mail.send", f"{stray}:9", to=["ada@example.com"], subject="?", body="?")


async def key_that_is_none_of_ours(env: SagaEnv, stray: str, _good: str) -> None:
    await env.world.call("inventory.reserve", f"somebody-else/{stray}", plan="small")


async def killed_saga(env: SagaEnv, stray: str, _good: str) -> None:
    """A saga that was terminated while it waited to authorise: its reservation stands."""
    fault = await env.world.fault("payments.authorize", "http_429", key=f"{stray}:{AUTHORIZE}", retry_after_s=3600)
    plan = Plan(steps=order_plan(f"{stray}.example.dev"))
    handle = await env.client.start_workflow(PlannedSaga.run, plan, id=stray, task_queue=env.task_queue)
    await until(lambda: env.world.fired(fault))
    await handle.terminate("killed")


PLANTS: tuple[Plant, ...] = (
    stray_reservation,
    stray_hold,
    stray_charge,
    stray_cluster,
    balancer_that_its_saga_does_not_keep,
    stray_route,
    stray_mail,
    key_that_is_none_of_ours,
    killed_saga,
)


async def findings(env: SagaEnv) -> tuple[Finding, ...]:
    return (await reconcile(env.client)).findings


async def test_exactly_the_planted_orphans_are_found_among_good_orders(lone_env: SagaEnv, full: bool) -> None:
    orders, orphans = (200, 42) if full else (30, 14)
    await lone_env.world.seed(stock={"small": 1000, "medium": 1000})
    good = await good_orders(lone_env, orders)
    before = {(effect.kind, effect.id) for effect in await lone_env.world.standing()}
    for number, plant in enumerate(islice(cycle(PLANTS), orphans)):
        await plant(lone_env, lone_env.new_id("stray"), good[number])
    planted = {(effect.kind, effect.id) for effect in await lone_env.world.standing()} - before

    found = await findings(lone_env)

    assert {one.kind for one in found} == {FindingKind.ORPHAN}
    assert len(found) == orphans == len(planted)
    assert {one.id for one in found} == {identity for _, identity in planted}


async def test_mending_recovers_killed_sagas_and_leaves_strays_to_an_operator(lone_env: SagaEnv) -> None:
    (good,) = await good_orders(lone_env, 1)
    stood = await lone_env.world.standing()
    killed, stray = lone_env.new_id("killed"), lone_env.new_id("stray")
    await killed_saga(lone_env, killed, good)
    await stray_reservation(lone_env, stray, good)
    await balancer_that_its_saga_does_not_keep(lone_env, stray, good)
    found = await reconcile(lone_env.client)

    mended = await mend(lone_env.client, found, task_queue=lone_env.task_queue)

    assert (mended.recovered, set(mended.held), mended.by_hand) == ((killed,), {stray, good}, ())
    await lone_env.client.get_workflow_handle_for(RecoverySaga.run, f"{RECOVER}{killed}").result()
    assert (await read_saga(lone_env.client, good)).state is SagaState.NEEDS_ATTENTION
    for saga_id, step in ((stray, 2), (good, 77)):
        retry = Decision(step_no=step, choice=Choice.RETRY, by="grace")
        assert (await decide(lone_env.client, saga_id, retry)).settled
    assert await lone_env.world.standing() == stood
    assert (await read_saga(lone_env.client, good)).state is SagaState.COMMITTED
    assert await findings(lone_env) == ()


async def test_what_a_committed_saga_keeps_and_nobody_has_is_missing(lone_env: SagaEnv) -> None:
    (good,) = await good_orders(lone_env, 1)
    await lone_env.world.call("dns.unregister", "by-hand", original_key=f"{good}:7")

    found = await findings(lone_env)

    assert [(one.kind, one.key) for one in found] == [(FindingKind.MISSING, f"{good}:7")]


async def test_money_of_another_amount_is_found(lone_env: SagaEnv) -> None:
    (good,) = await good_orders(lone_env, 1)
    payment = (await lone_env.world.state()).payments.payments[0]
    await lone_env.world.call("payments.refund", "by-hand", id=payment.id, amount=1)

    found = await findings(lone_env)

    assert [(one.kind, one.key, one.amount) for one in found] == [
        (FindingKind.AMOUNT_DIFFERS, f"{good}:{CAPTURE}", payment.amount - 1)
    ]


async def test_a_refund_that_failed_afterwards_is_refunded_anew(lone_env: SagaEnv) -> None:
    plan = (
        order_plan()[0],
        PlannedStep(
            tool="authorize_payment",
            args={"card_token": "tok_refund_fails_later"},
            results={"quote_id": (QUOTE, "quote_id")},
        ),
        PlannedStep(tool="capture_payment", results={"payment_id": (2, "payment_id")}),
        PlannedStep(tool="register_domain_route", args={"hostname": "a.example.dev", "load_balancer_ids": ["lb_none"]}),
    )
    report = await lone_env.run_plan(*plan)
    assert report.state is SagaState.COMPENSATED
    await lone_env.world.let_pass(61)
    found = await reconcile(lone_env.client)
    assert [(one.kind, one.key) for one in found.findings] == [(FindingKind.LATE_FAILURE, f"{report.id}:3")]
    assert not await recover(lone_env.client, report.id)

    await mend(lone_env.client, found, task_queue=lone_env.task_queue)
    twice = await mend(lone_env.client, await reconcile(lone_env.client), task_queue=lone_env.task_queue)

    assert twice.held == (report.id,)
    assert (await read_saga(lone_env.client, report.id)).state is SagaState.NEEDS_ATTENTION
    await decide(lone_env.client, report.id, Decision(step_no=3, choice=Choice.RETRY, by="grace"))
    assert (await lone_env.world.done()).count("payments.refund") == 2
    assert await lone_env.world.standing() == []
    assert await findings(lone_env) == ()
    # This card's refunds fail every time.
    await lone_env.world.let_pass(61)
    assert [one.kind for one in await findings(lone_env)] == [FindingKind.LATE_FAILURE]
