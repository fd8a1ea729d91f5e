"""Sagas whose decisions and effects go to an audit log, on real servers."""

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.client import Client

from countermand.agents.team import ORDER_TEAM
from countermand.plugin import CountermandPlugin
from countermand.saga import SagaOptions, SagaState
from countermand.saga.approvals import decide_approval
from countermand.saga.audit.entries import Entry
from countermand.saga.audit.judge import read_leaf
from countermand.saga.audit.keys import KEYRING_FILE, create_development_key, read_keyring
from countermand.saga.audit.log import HEADS_FILE, LOG_FILE, SALTS_FILE, AuditLog
from countermand.saga.audit.reader import read_log
from countermand.saga.audit.verify import reconcile, verify
from countermand.saga.janitor import recover
from countermand.saga.names import RECOVER, RESIDUALS
from countermand.saga.reading import final_states
from countermand.saga.reconcile import Finding, FindingKind, Reconciliation, mend
from countermand.saga.residuals import Choice, Decision, decide
from countermand.saga.revoke import revoke
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.worker import build_worker
from tests.agents.asking import asked
from tests.agents.orders import BYE, QUOTE, calls
from tests.saga.orders import ORDER_PLAN, ROUTE

ORDER_TEXT = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers, tok_visa"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create_development_key(tmp_path)
    return tmp_path


@pytest.fixture
async def audited(temporal_local: Client, world: WorldUnderTest, folder: Path) -> AsyncGenerator[SagaEnv]:
    """A worker that serves an audit log; sagas that say so bring their entries there."""
    log = AuditLog.in_folder(folder)
    config = temporal_local.config()
    config["plugins"] = [CountermandPlugin(audit=log)]
    env = SagaEnv(client=Client(**config), task_queue=f"audited-{folder.name}", world=world, audit=True)
    async with providers_at(world.url), build_worker(env.client, task_queue=env.task_queue):
        yield env
    log.close()


def entries_of(folder: Path, saga_id: str) -> list[Entry]:
    with read_log(folder / LOG_FILE) as reader:
        return [entry for leaf in reader.of_saga(saga_id) for entry in read_leaf(leaf)[1]]


async def in_the_log(folder: Path, saga_id: str, state: SagaState) -> list[Entry]:
    """Wait until the log says that the saga came to this state."""

    async def said() -> bool:
        return any(entry.kind == "close" and entry.state == state for entry in entries_of(folder, saga_id))

    await until(said)
    return entries_of(folder, saga_id)


def assert_verified(folder: Path) -> None:
    with read_log(folder / LOG_FILE) as reader:
        checked = verify(reader, read_keyring(folder / KEYRING_FILE), [])
    assert checked.ok, checked


async def test_every_decision_and_effect_of_an_agents_order_is_in_the_log(audited: SagaEnv, folder: Path) -> None:
    result = await (await audited.start_turn(ORDER_TEXT)).result()

    entries = await in_the_log(folder, result.saga.id, SagaState.COMMITTED)

    steps = [entry.tool for entry in entries if entry.kind == "step"]
    assert steps == [step.tool for step in result.saga.steps]
    verdicts = [entry for entry in entries if entry.kind == "verdict"]
    assert [entry.tool for entry in verdicts if entry.step_no] == steps
    assert [(entry.tool, entry.rule) for entry in verdicts if not entry.step_no] == [("commit", "builtin")]
    assert len([entry for entry in entries if entry.kind == "outcome"]) == len(steps)
    assert all(entry.actor == "agent:order" for entry in entries if entry.kind == "decision")
    assert_verified(folder)


async def test_a_refused_call_is_in_the_log_with_the_rule_and_without_a_name_that_was_made_up(
    audited: SagaEnv, folder: Path, script: Callable[..., str]
) -> None:
    model = script(QUOTE, calls(("wire_ada_at_example_com", {})), calls(("reserve_stock", {"quote_id": [1]})), BYE)
    result = await (await audited.start_turn(ORDER_TEXT, model=model)).result()

    entries = await in_the_log(folder, result.saga.id, SagaState.COMMITTED)

    refused = [entry for entry in entries if entry.kind == "verdict" and entry.verdict == "refused"]
    assert [(entry.tool, entry.rule) for entry in refused] == [("", "allowlist"), ("reserve_stock", "schema")]
    assert_verified(folder)


@pytest.mark.parametrize("granted", [True, False])
async def test_an_approval_is_in_the_log_with_who_decided_and_no_finding(
    audited: SagaEnv, folder: Path, granted: bool
) -> None:
    team = ORDER_TEAM.model_copy(update={"approvals": {"authorize_payment": "always"}})
    turn = await audited.start_turn(ORDER_TEXT, team=team)
    (request,) = await asked(turn)
    await decide_approval(audited.client, request.id, granted=granted, by="grace")
    report = (await turn.result()).saga

    entries = await in_the_log(folder, report.id, report.state)

    approvals = [(entry.actor, entry.granted) for entry in entries if entry.kind == "approval"]
    assert approvals == [("operator:grace", granted)]
    assert_verified(folder)


async def test_a_rollback_is_in_the_log_in_its_order(audited: SagaEnv, folder: Path) -> None:
    await audited.world.fault("dns.register", "http_503")
    report = await audited.run_plan(*ORDER_PLAN)

    entries = await in_the_log(folder, report.id, SagaState.COMPENSATED)

    undone = [entry.step_no for entry in entries if entry.kind == "undo"]
    assert undone == sorted(undone, reverse=True)
    assert len(undone) == len([step for step in report.steps if step.undo_no])
    assert_verified(folder)


async def test_a_terminated_saga_is_in_the_log_through_its_recovery(audited: SagaEnv, folder: Path) -> None:
    fault = await audited.world.fault("dns.register", "hang", effect="after")
    handle = await audited.start_plan(*ORDER_PLAN)
    await until(lambda: audited.world.fired(fault))
    await handle.terminate("a mistake")
    await audited.world.clear_faults()

    await recover(audited.client, handle.id, audited.options)
    await audited.client.get_workflow_handle(f"{RECOVER}{handle.id}").result()

    entries = await in_the_log(folder, handle.id, SagaState.COMPENSATED)
    assert entries[0].kind == "recovery"
    assert_verified(folder)


async def test_an_operators_decision_and_a_revocation_are_in_the_log_with_who_decided(
    audited: SagaEnv, folder: Path
) -> None:
    await audited.world.fault("payments.capture", "decline")
    await audited.world.fault("dns.unregister", "http_503")
    left = await audited.run_plan(*ORDER_PLAN)
    await audited.world.clear_faults()
    await decide(audited.client, left.id, Decision(step_no=ROUTE, choice=Choice.RETRY, by="grace"))
    await audited.client.get_workflow_handle(f"{RESIDUALS}{left.id}").result()
    placed = await audited.run_plan(*ORDER_PLAN)
    await in_the_log(folder, placed.id, SagaState.COMMITTED)

    await revoke(audited.client, placed.id, by="1", actor="operator:grace", reason="fraud")

    mended = await in_the_log(folder, left.id, SagaState.COMPENSATED)
    revoked = await in_the_log(folder, placed.id, SagaState.COMPENSATED)
    assert [entry.actor for entry in mended if entry.kind == "residual" and entry.decision == "retry"] == [
        "operator:grace"
    ]
    assert [entry.actor for entry in revoked if entry.kind == "revoke"] == ["operator:grace"]
    assert_verified(folder)


async def test_what_reconcile_leaves_to_an_operator_is_in_the_log(audited: SagaEnv, folder: Path) -> None:
    placed = await audited.run_plan(*ORDER_PLAN)
    cluster = (await audited.world.state()).cloud.clusters[0]
    stray = f"{placed.id}:77"
    await audited.world.call("cloud.create_load_balancer", stray, cluster_id=cluster.id)
    orphan = Finding(
        kind=FindingKind.ORPHAN,
        tool="create_load_balancer",
        key=stray,
        saga_id=placed.id,
        step_no=77,
        id=None,
        amount=None,
        currency=None,
        args={"cluster_id": cluster.id},
        detail="no such step",
    )
    found = Reconciliation(began=datetime.now(UTC), effects=1, sagas=1, findings=(orphan,))

    await mend(audited.client, found, task_queue=audited.task_queue, options=audited.options)
    await decide(audited.client, placed.id, Decision(step_no=77, choice=Choice.RETRY, by="grace"))
    await audited.client.get_workflow_handle(f"{RESIDUALS}{placed.id}").result()

    async def logged() -> bool:
        decisions = [entry for entry in entries_of(folder, placed.id) if entry.kind == "residual"]
        return [(entry.actor, entry.decision) for entry in decisions] == [
            ("executor", "left"),
            ("operator:grace", "retry"),
        ]

    await until(logged)
    assert_verified(folder)


async def test_a_log_that_is_down_delays_no_answer_and_loses_nothing(audited: SagaEnv, folder: Path) -> None:
    whole, away = folder / LOG_FILE, folder / "away"
    (folder / SALTS_FILE).rename(away)
    (folder / SALTS_FILE).mkdir()

    report = await audited.run_plan(*ORDER_PLAN)
    (folder / SALTS_FILE).rmdir()
    away.rename(folder / SALTS_FILE)

    assert report.state is SagaState.COMMITTED
    assert whole.exists()
    await in_the_log(folder, report.id, SagaState.COMMITTED)
    assert_verified(folder)


async def test_a_saga_that_temporal_knows_and_the_log_does_not_is_found(audited: SagaEnv, folder: Path) -> None:
    known = await audited.run_plan(*ORDER_PLAN)
    await in_the_log(folder, known.id, SagaState.COMMITTED)
    unaudited = SagaEnv(client=audited.client, task_queue=audited.task_queue, world=audited.world)
    missing = await unaudited.run_plan(*ORDER_PLAN)

    async def listed() -> bool:
        return {known.id, missing.id} <= {saga_id for saga_id, _ in await final_states(audited.client)}

    await until(listed)
    states = [one for one in await final_states(audited.client) if one[0] in {known.id, missing.id}]
    with read_log(folder / LOG_FILE) as reader:
        findings = reconcile(verify(reader, read_keyring(folder / KEYRING_FILE), []).closed, states)

    assert [missing.id in str(finding) for finding in findings] == [True]


async def test_no_secret_and_no_address_is_in_the_log_in_clear(audited: SagaEnv, folder: Path) -> None:
    result = await (await audited.start_turn(ORDER_TEXT)).result()
    await in_the_log(folder, result.saga.id, SagaState.COMMITTED)

    for file in (LOG_FILE, HEADS_FILE):
        content = (folder / file).read_bytes()
        assert b"ada@example.com" not in content
        assert b"tok_visa" not in content


def test_audited_is_an_option_of_the_start_input() -> None:
    assert not SagaOptions().audit
