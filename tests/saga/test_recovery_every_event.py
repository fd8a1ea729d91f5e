"""A saga that is terminated after any event, or reset to any workflow task, ends net zero or committed once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from countermand.saga import Plan, PlannedSaga, PlannedStep, SagaReport, SagaState
from countermand.saga.janitor import SweepInput, recover, sweep
from countermand.saga.names import RECOVER, RESIDUALS
from countermand.saga.reading import described
from countermand.saga.recovery import RecoverySaga
from countermand.saga.residuals import ResidualsWorkflow
from countermand.saga.types import Outcome
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.saga.orders import AUTHORIZE, CAPTURE, EFFECTS, QUOTE, ROUTE, order_plan
from tests.saga.resetting import reset, reset_points

Handle = WorkflowHandle[PlannedSaga, SagaReport]
Begin = Callable[[SagaEnv], Awaitable[Handle]]

RACED = 50
"""Sagas that are recovered at once."""

LATE_S = 0.4
"""How long a slow call takes; its effect comes at the end."""


async def begin_committed(env: SagaEnv) -> Handle:
    saga_id = env.new_id("order")
    plan = Plan(steps=order_plan(f"{saga_id}.example.dev"))
    return await env.client.start_workflow(PlannedSaga.run, plan, id=saga_id, task_queue=env.task_queue)


async def begin_compensated(env: SagaEnv) -> Handle:
    saga_id = env.new_id("order")
    await env.world.fault("payments.capture", "decline", key=f"{saga_id}:{CAPTURE}")
    plan = Plan(steps=order_plan(f"{saga_id}.example.dev"))
    return await env.client.start_workflow(PlannedSaga.run, plan, id=saga_id, task_queue=env.task_queue)


async def begin_cancelled(env: SagaEnv) -> Handle:
    handle = await begin_committed(env)
    await events_reached(handle, 30)
    await handle.cancel()
    return handle


async def events_reached(handle: Handle, index: int) -> None:
    """Wait until the history has so many events, or the workflow is closed."""
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_id >= index:
            return


async def end_of(env: SagaEnv, saga_id: str) -> SagaState:
    """Recover a saga if it needs it, and answer how it ended."""
    handle = env.client.get_workflow_handle_for(PlannedSaga.run, saga_id)
    if (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED:
        return (await handle.result()).state
    if not await recover(env.client, saga_id):
        # Nothing was scheduled yet, so nothing is in the ledger.
        return SagaState.COMPENSATED
    return (await env.client.get_workflow_handle_for(RecoverySaga.run, f"{RECOVER}{saga_id}").result()).state


async def terminated_after(env: SagaEnv, begin: Begin, index: int) -> tuple[str, SagaState]:
    handle = await begin(env)
    await events_reached(handle, index)
    try:
        await handle.terminate(f"after event {index}")
    except RPCError:
        # It was closed by then: index is the last.
        await handle.result()
    return handle.id, await end_of(env, handle.id)


async def _undone(env: SagaEnv, operation: str) -> bool:
    return operation in await env.world.done()


async def judge(env: SagaEnv, ends: Iterable[tuple[str, SagaState]]) -> None:
    """Late attempts are waited out; then the world's ledger says what stands."""
    after = asyncio.get_running_loop().time() + LATE_S + 0.2

    async def late() -> bool:
        return asyncio.get_running_loop().time() > after

    await until(late)
    state = await env.world.state()
    for saga_id, end in ends:
        standing = sorted(effect.kind for effect in state.standing if effect.key.startswith(f"{saga_id}:"))
        assert standing == (sorted(EFFECTS) if end is SagaState.COMMITTED else []), (saga_id, end)
        assert end in {SagaState.COMMITTED, SagaState.COMPENSATED}
        keys = [entry.key for entry in state.ledger if entry.key and entry.key.startswith(f"{saga_id}:")]
        assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("begin", "first"),
    [(begin_committed, 1), (begin_compensated, 1), (begin_cancelled, 30)],
    ids=["committed", "compensated", "cancelled"],
)
async def test_terminated_after_any_event_it_ends_net_zero_or_committed(
    saga_env: SagaEnv, begin: Begin, first: int, full: bool
) -> None:
    whole = await begin(saga_env)
    await whole.result()
    last = len((await whole.fetch_history()).events)
    # Calls that are slow now and then are in flight when the workflow goes, and land after it.
    for number, operation in enumerate(("inventory.reserve", "payments.authorize", "dns.register", "payments.capture")):
        await saga_env.world.fault(operation, "slow", delay_s=LATE_S, probability=0.4, seed=number)
    one_at_a_time = asyncio.Semaphore(6)

    async def tried(index: int) -> tuple[str, SagaState]:
        async with one_at_a_time:
            return await terminated_after(saga_env, begin, index)

    indexes = range(first, last + 1, 1 if full else 9)
    await judge(saga_env, await asyncio.gather(*(tried(index) for index in indexes)))


async def test_what_could_not_be_undone_is_held_wherever_the_workflow_is_terminated(
    saga_env: SagaEnv, full: bool
) -> None:
    await saga_env.world.fault("payments.capture", "decline")
    await saga_env.world.fault("dns.unregister", "http_503")
    whole = await begin_committed(saga_env)
    assert (await whole.result()).state is SagaState.NEEDS_ATTENTION
    last = len((await whole.fetch_history()).events)

    async def lost_after(index: int) -> None:
        handle = await begin_committed(saga_env)
        await events_reached(handle, index)
        # Where it was closed by then, there is nothing to terminate.
        with suppress(RPCError):
            await handle.terminate(f"after event {index}")
        await recover(saga_env.client, handle.id)

        async def held() -> bool:
            return await described(saga_env.client, f"{RESIDUALS}{handle.id}") is not None

        await until(held, deadline=60)
        residuals = saga_env.client.get_workflow_handle_for(ResidualsWorkflow.run, f"{RESIDUALS}{handle.id}")
        report = (await residuals.query(ResidualsWorkflow.report)).saga
        assert [residual.step_no for residual in report.residuals] == [ROUTE]

    await asyncio.gather(*(lost_after(index) for index in range(last - 12, last + 1, 1 if full else 4)))


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (begin_committed, SagaState.COMMITTED),
        (begin_compensated, SagaState.COMPENSATED),
        (begin_cancelled, SagaState.COMPENSATED),
    ],
    ids=["committed", "compensated", "cancelled"],
)
async def test_reset_to_any_workflow_task_it_ends_as_before(
    saga_env: SagaEnv, begin: Begin, end: SagaState, full: bool
) -> None:
    handle = await begin(saga_env)
    assert (await handle.result()).state is end
    # The card that was declined would be taken now; what was undone must not be taken for standing.
    await saga_env.world.clear_faults()
    points, run_id = await reset_points(saga_env.client, handle.id)

    for point in points if full else points[:: len(points) // 4]:
        new = await reset(saga_env.client, handle.id, run_id, point)
        report = await saga_env.client.get_workflow_handle_for(PlannedSaga.run, handle.id, run_id=new).result()

        assert report.state is end, f"reset to event {point}"
        await judge(saga_env, [(handle.id, end)])


async def test_an_undo_that_is_on_its_way_when_the_workflow_is_reset_is_not_overtaken(saga_env: SagaEnv) -> None:
    on_its_way = await saga_env.world.fault("dns.unregister", "slow", delay_s=2, times=1)
    handle = await begin_compensated(saga_env)
    await until(lambda: saga_env.world.fired(on_its_way))
    await saga_env.world.clear_faults()
    points, run_id = await reset_points(saga_env.client, handle.id)

    # Before the undo: the new run takes the record for standing, and the card is not declined any more.
    new = await reset(saga_env.client, handle.id, run_id, points[-2])
    report = await saga_env.client.get_workflow_handle_for(PlannedSaga.run, handle.id, run_id=new).result()

    assert report.state is SagaState.COMPENSATED
    assert report.cause is not None
    assert "undone before the workflow was reset" in report.cause.message
    await until(lambda: _undone(saga_env, "dns.unregister"))
    await judge(saga_env, [(handle.id, report.state)])


async def test_the_run_that_a_reset_left_is_not_recovered_beside_the_live_one(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("dns.register", "slow", delay_s=2, times=2)
    handle = await begin_committed(saga_env)
    await until(lambda: saga_env.world.fired(fault))
    points, run_id = await reset_points(saga_env.client, handle.id)
    new = await reset(saga_env.client, handle.id, run_id, points[-1])

    async def listed() -> bool:
        return (await sweep(saga_env.client, SweepInput(saga_id=handle.id))).examined > 0

    await until(listed)
    assert not await recover(saga_env.client, handle.id)

    report = await saga_env.client.get_workflow_handle_for(PlannedSaga.run, handle.id, run_id=new).result()
    assert report.state is SagaState.COMMITTED
    assert all(step.outcome is Outcome.DONE for step in report.steps)
    await judge(saga_env, [(handle.id, report.state)])
    assert not await recover(saga_env.client, handle.id)


async def test_recoveries_raced_by_two_janitors_refund_once(saga_env: SagaEnv, full: bool) -> None:
    """Fifty sagas at a time; a thousand with ``--full``."""
    waves = 20 if full else 1
    await saga_env.world.seed(stock={"medium": waves * RACED})

    for wave in range(waves):
        await race(saga_env, charged=(wave + 1) * RACED)

    assert (await saga_env.world.done()).count("payments.refund") == waves * RACED
    assert await saga_env.world.standing() == []


async def race(env: SagaEnv, *, charged: int) -> None:
    """Terminate fifty sagas when so many in all have charged; two janitors sweep until all are recovered."""
    plan = (
        *order_plan()[:AUTHORIZE],
        PlannedStep(tool="capture_payment", results={"payment_id": (AUTHORIZE, "payment_id")}),
        PlannedStep(tool="provision_cluster", results={"quote_id": (QUOTE, "quote_id")}),
    )
    look = SweepInput(since=datetime.now(UTC))
    # Refused with a long pause: it waits there, charged.
    await env.world.fault("cloud.create_cluster", "http_429", retry_after_s=3600)
    handles = [await env.start_plan(*plan) for _ in range(RACED)]

    async def all_charged() -> bool:
        return (await env.world.done()).count("payments.capture") == charged

    await until(all_charged, deadline=300)
    await asyncio.gather(*(handle.terminate("all at once") for handle in handles))
    await env.world.clear_faults()
    lost = {handle.id for handle in handles}
    started: list[str] = []

    async def swept() -> bool:
        for one in await asyncio.gather(*(sweep(env.client, look) for _ in range(2))):
            started.extend(lost.intersection(one.recovered))
        return len(started) >= RACED

    await until(swept, deadline=300)
    assert sorted(started) == sorted(lost)
    for saga_id in lost:
        recovery = env.client.get_workflow_handle_for(RecoverySaga.run, f"{RECOVER}{saga_id}")
        assert (await recovery.result()).state is SagaState.COMPENSATED
