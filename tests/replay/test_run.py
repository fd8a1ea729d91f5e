"""Bundles run again, offline: the recorded answers, a fresh world, and what if something else goes wrong."""

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Awaitable, Callable

import pytest

from countermand.replay.bundle import Bundle, BundleInvalid, load
from countermand.replay.check import check
from countermand.replay.run import Ran, run
from countermand.saga import CauseKind, SagaState, ToolCall
from countermand.saga.tool import declare
from countermand.tools.inventory import Reservation, ReserveStock, reserve_stock
from countermand.tools.registry import load_tools
from countermand.tools.world.faults import FaultRequest
from tests.replay.make_bundles import FOLDER

STATES = {
    "refused": SagaState.COMPENSATED,
    "unavailable": SagaState.COMPENSATED,
    "lost-answer": SagaState.COMPENSATED,
    "cancelled": SagaState.COMPENSATED,
    "needs-attention": SagaState.NEEDS_ATTENTION,
    "revoked": SagaState.COMMITTED,
}


async def again(name: str, *faults: FaultRequest) -> Ran:
    load_tools()
    return await run(load(FOLDER / f"{name}.json"), faults=faults)


@pytest.mark.parametrize("name", STATES)
async def test_a_run_ends_as_the_recorded_one_did(name: str) -> None:
    ran = await again(name)

    assert ran.saga.state is STATES[name]
    assert not ran.differences


async def test_the_same_bundle_twice_gives_the_same_ledger() -> None:
    first, second = await again("committed"), await again("committed")

    assert first.saga.state is SagaState.COMMITTED
    assert [line.operation for line in first.ledger][-1] == "mail.send"
    assert first.ledger == second.ledger


async def test_a_lost_answer_is_lost_again_after_its_effect() -> None:
    ran = await again("lost-answer")

    assert [line.step_no for line in ran.ledger if line.direction == "do"] == [2, 3]
    assert [line.step_no for line in ran.ledger if line.direction == "undo"] == [3, 2]


async def test_what_if_a_provider_had_been_down() -> None:
    ran = await again("revoked", FaultRequest(operation="payments.capture", kind="http_503"))

    assert ran.saga.state is SagaState.COMPENSATED
    assert "step 4 (capture_payment): outcome was done, is unknown" in ran.differences


async def test_a_model_that_would_have_been_asked_something_else_is_not_made_up() -> None:
    ran = await again("committed", FaultRequest(operation="payments.capture", kind="decline"))

    assert ran.saga.state is SagaState.COMPENSATED
    assert ran.saga.cause is not None
    assert ran.saga.cause.kind is CauseKind.MODEL
    assert "was not asked this when it was recorded" in ran.saga.cause.message


async def test_a_saga_that_was_terminated_can_not_be_run_again() -> None:
    with pytest.raises(BundleInvalid, match="was ended from outside"):
        await again("recovered")


async def test_the_command_tells_the_state_by_its_exit_code_and_prints_nothing_but_json() -> None:
    code, out, _ = await command("run", str(FOLDER / "revoked.json"), "--fault", "payments.capture:decline", "--json")

    assert code == 3
    assert json.loads(out)["saga"]["state"] == "compensated"


async def test_people_read_what_happened_and_nothing_else() -> None:
    code, out, err = await command("run", str(FOLDER / "committed.json"))

    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "golden-committed: committed",
        "  inventory.reserve (step 2)",
        "  payments.authorize (step 3) 67.00 USD",
    ]
    assert out.splitlines()[-1] == "The steps are the recorded ones."


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        ("payments.steal", "there is no operation 'payments.steal'"),
        ("payments.capture:explode", "'explode' is none of http_NNN"),
    ],
)
async def test_a_fault_that_there_is_not_is_refused_in_one_line(fault: str, problem: str) -> None:
    code, out, complaint = await command("run", str(FOLDER / "revoked.json"), "--fault", fault)

    assert (code, out) == (2, "")
    assert complaint.startswith(f"error: --fault: {problem}")
    assert complaint.count("\n") == 1


def calling(tool: str) -> Bundle:
    """A bundle whose saga calls another tool than ours to reserve stock."""
    text = (FOLDER / "revoked.json").read_text()
    return Bundle.model_validate_json(text.replace('{"name":"reserve_stock"}', f'{{"name":"{tool}"}}'))


async def test_a_tool_of_ones_own_does_not_act_on_its_system_unasked() -> None:
    load_tools()

    async def reserve(call: ToolCall, args: ReserveStock) -> Reservation:
        return await reserve_stock.forward(call, args)

    declare(dataclasses.replace(reserve_stock, name="reserve_in_our_store", forward=reserve, list_effects=None))

    with pytest.raises(BundleInvalid, match=r"step 2 calls reserve_in_our_store, a tool of your own: .* --own-tools"):
        await run(calling("reserve_in_our_store"))


@pytest.mark.parametrize("use", [run, check])
async def test_a_tool_that_is_not_known_here_is_named(use: Callable[[Bundle], Awaitable[object]]) -> None:
    load_tools()

    with pytest.raises(BundleInvalid, match="step 2 calls reserve_elsewhere, and there is no such tool here"):
        await use(calling("reserve_elsewhere"))


async def command(*arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "countermand", "replay", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ},
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()
