import asyncio
from datetime import timedelta

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle

from countermand.saga import PlannedSaga, SagaReport, SagaState
from countermand.saga.janitor import SweepInput, recover, sweep
from countermand.saga.names import RECOVER
from countermand.saga.reading import read_saga
from countermand.saga.recovery import RecoverySaga
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.saga.orders import EFFECTS, ORDER_PLAN, standing_kinds
from tests.saga.resetting import reset, reset_points

Handle = WorkflowHandle[PlannedSaga, SagaReport]


async def terminated_at(env: SagaEnv, operation: str, *, effect: str = "before") -> Handle:
    """An order whose workflow was terminated while it waited for an operation that hangs."""
    fault = await env.world.fault(operation, "hang", effect=effect)
    handle = await env.start_plan(*ORDER_PLAN)
    await until(lambda: env.world.fired(fault))
    await handle.terminate("the operator's mistake")
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    await env.world.clear_faults()
    return handle


async def recovered(env: SagaEnv, saga_id: str) -> SagaReport:
    return await env.client.get_workflow_handle_for(RecoverySaga.run, f"{RECOVER}{saga_id}").result()


@pytest.mark.parametrize(
    "operation", ["inventory.reserve", "payments.authorize", "cloud.create_cluster", "dns.register", "payments.capture"]
)
@pytest.mark.parametrize("effect", ["before", "after"])
async def test_a_terminated_saga_is_undone_by_its_recovery(saga_env: SagaEnv, operation: str, effect: str) -> None:
    handle = await terminated_at(saga_env, operation, effect=effect)

    assert await recover(saga_env.client, handle.id)

    report = await recovered(saga_env, handle.id)
    assert report.state is SagaState.COMPENSATED
    assert await saga_env.world.standing() == []
    undos = [step.undo_no for step in report.steps if step.undo_no]
    assert undos == sorted(undos, reverse=True)


async def test_two_janitors_start_one_recovery(saga_env: SagaEnv) -> None:
    handle = await terminated_at(saga_env, "dns.register", effect="after")

    started = await asyncio.gather(*(recover(saga_env.client, handle.id) for _ in range(4)))

    assert sum(started) == 1
    await recovered(saga_env, handle.id)
    assert not await recover(saga_env.client, handle.id)
    refunds = [entry for entry in await saga_env.world.ledger() if entry.operation == "payments.void"]
    assert len(refunds) == 1


async def test_the_sweep_finds_the_terminated_and_leaves_the_committed_alone(saga_env: SagaEnv) -> None:
    committed = await saga_env.run_plan(*ORDER_PLAN)
    before = await standing_kinds(saga_env)
    lost = await terminated_at(saga_env, "dns.register")

    async def swept() -> bool:
        found = await sweep(saga_env.client, SweepInput(saga_id=lost.id))
        return lost.id in found.recovered

    await until(swept)
    await recovered(saga_env, lost.id)

    assert committed.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == before == sorted(EFFECTS)
    assert not await recover(saga_env.client, committed.id)


async def test_a_running_saga_is_not_recovered(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("dns.register", "slow", delay_s=1)
    handle = await saga_env.start_plan(*ORDER_PLAN)
    await until(lambda: saga_env.world.fired(fault))

    assert not await recover(saga_env.client, handle.id)

    assert (await handle.result()).state is SagaState.COMMITTED


async def test_a_recovery_that_is_terminated_is_recovered(saga_env: SagaEnv) -> None:
    handle = await terminated_at(saga_env, "dns.register")
    fault = await saga_env.world.fault("payments.void", "hang")
    await recover(saga_env.client, handle.id)
    await until(lambda: saga_env.world.fired(fault))
    recovery = saga_env.client.get_workflow_handle(f"{RECOVER}{handle.id}")
    await recovery.terminate("again")
    await saga_env.world.clear_faults()

    await until(lambda: recover(saga_env.client, handle.id))

    report = await recovered(saga_env, handle.id)
    assert report.state is SagaState.COMPENSATED
    assert await saga_env.world.standing() == []
    operations = await saga_env.world.done()
    assert len(operations) == len(set(zip(operations, range(len(operations)), strict=True)))
    assert operations.count("cloud.terminate_cluster") == 1


async def test_a_saga_that_is_reset_after_its_recovery_and_lost_again_is_recovered_again(saga_env: SagaEnv) -> None:
    handle = await terminated_at(saga_env, "dns.register")
    assert await recover(saga_env.client, handle.id)
    await recovered(saga_env, handle.id)
    assert not await recover(saga_env.client, handle.id)
    points, run_id = await reset_points(saga_env.client, handle.id)
    fault = await saga_env.world.fault("inventory.quote", "hang")
    await reset(saga_env.client, handle.id, run_id, points[0])
    await until(lambda: saga_env.world.fired(fault))
    await saga_env.client.get_workflow_handle(handle.id).terminate("again")
    await saga_env.world.clear_faults()

    assert await recover(saga_env.client, handle.id)

    assert (await recovered(saga_env, handle.id)).state is SagaState.COMPENSATED
    assert await saga_env.world.standing() == []
    assert not await recover(saga_env.client, handle.id)


async def test_a_saga_that_times_out_is_recovered(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("dns.register", "hang", effect="after")
    handle = await saga_env.start_plan(*ORDER_PLAN, run_timeout=timedelta(seconds=2))
    with pytest.raises(WorkflowFailureError):
        await handle.result()
    await saga_env.world.clear_faults()

    assert await recover(saga_env.client, handle.id)

    await recovered(saga_env, handle.id)
    assert await saga_env.world.standing() == []
    detail = await read_saga(saga_env.client, handle.id)
    assert detail.state is SagaState.COMPENSATED


async def test_a_saga_terminated_after_its_mail_was_sent_counts_as_committed(saga_env: SagaEnv) -> None:
    handle = await terminated_at(saga_env, "mail.send", effect="after")

    await recover(saga_env.client, handle.id)

    report = await recovered(saga_env, handle.id)
    assert report.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == sorted(EFFECTS)
