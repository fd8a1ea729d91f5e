import asyncio

import pytest

from countermand.saga import SagaState
from countermand.saga.janitor import recover
from countermand.saga.revoke import NotRevocable, revoke
from countermand.testing.env import SagaEnv
from tests.saga.orders import MAIL, ORDER_PLAN
from tests.saga.test_recovery import recovered, terminated_at


async def test_a_committed_saga_is_undone_later_and_only_the_mail_is_left(saga_env: SagaEnv) -> None:
    committed = await saga_env.run_plan(*ORDER_PLAN)

    report = await revoke(saga_env.client, committed.id, by="ada", actor="operator:ada", reason="changed my mind")

    assert report.state is SagaState.COMPENSATED
    assert [residual.step_no for residual in report.residuals] == [MAIL]
    assert [effect.kind for effect in await saga_env.world.standing()] == ["message"]
    undos = [step.undo_no for step in report.steps if step.undo_no]
    assert undos == sorted(undos, reverse=True)


async def test_revoked_twice_is_revoked_once(saga_env: SagaEnv) -> None:
    committed = await saga_env.run_plan(*ORDER_PLAN)

    reports = await asyncio.gather(
        *(
            revoke(saga_env.client, committed.id, by=f"operator {n}", actor="operator:ada", reason="twice")
            for n in range(3)
        )
    )

    assert reports[0] == reports[1] == reports[2]
    assert (await saga_env.world.done()).count("payments.refund") == 1


async def test_an_order_that_its_recovery_committed_is_revoked_as_any_other(saga_env: SagaEnv) -> None:
    lost = await terminated_at(saga_env, "mail.send", effect="after")
    await recover(saga_env.client, lost.id)
    with pytest.raises(NotRevocable, match="is still running"):
        await revoke(saga_env.client, lost.id, by="ada", actor="operator:ada", reason="too early")
    assert (await recovered(saga_env, lost.id)).state is SagaState.COMMITTED

    report = await revoke(saga_env.client, lost.id, by="ada", actor="operator:ada", reason="changed my mind")

    assert report.state is SagaState.COMPENSATED
    assert [effect.kind for effect in await saga_env.world.standing()] == ["message"]


async def test_what_did_not_commit_can_not_be_revoked(saga_env: SagaEnv) -> None:
    await saga_env.world.fault("dns.register", "http_503")
    failed = await saga_env.run_plan(*ORDER_PLAN)

    with pytest.raises(NotRevocable, match="only a committed saga"):
        await revoke(saga_env.client, failed.id, by="ada", actor="operator:ada", reason="?")
    with pytest.raises(NotRevocable, match="no saga"):
        await revoke(saga_env.client, "no-such-saga", by="ada", actor="operator:ada", reason="?")
