"""BookTrip, the conformance scenarios of durable-workflow: A flight, B hotel, C card, D confirmation."""

import asyncio
import uuid
from collections.abc import AsyncGenerator

import pytest
from pydantic import BaseModel
from temporalio.client import Client

from countermand.saga import SagaReport, SagaState
from countermand.saga.reading import read_saga
from countermand.saga.types import Compensation, Outcome
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from tests.cases import read_json
from tests.saga.stage import Call, Stage, call
from tests.saga.troubled import Trouble


class Scenario(BaseModel):
    """A scenario; what it does not say of the forward steps and the undos is None or prose."""

    id: str
    forward: list[str] | str | None = None
    undo: list[str] | str | None = None
    outcome: str = ""


class Summary(BaseModel):
    """The file."""

    scenarios: list[Scenario]


_SUMMARY = Summary.model_validate(read_json("durable-workflow/scenarios_summary.json"))
SCENARIOS = {scenario.id: scenario for scenario in _SUMMARY.scenarios}

FAILS_AT = {
    "forward_success_path": "",
    "failure_at_d_reverse_compensation": "D",
    "failure_at_c_reverse_compensation": "C",
    "failure_at_a_no_compensation": "A",
    # Undos in another language are another worker's here: every undo is an activity of its own anyway.
    "php_workflow_python_compensation / python_workflow_php_compensation": "D",
}
ELSEWHERE = {
    "compensation_retry_idempotence",
    "compensation_failure_visibility",
    "mid_compensation_worker_restart",
    "typed_compensation_error_round_trip",
    "operator_visible_mid_compensation_status",
}
NO_SAGA = {"published_artifact_install_only"}


def trip(
    fails_at: str = "", *, undo_flight: tuple[Trouble, ...] = (), undo_hotel: tuple[Trouble, ...] = ()
) -> list[Call]:
    """BookTrip; the step that fails does so for good after its retries."""
    spent: dict[str, tuple[Trouble, ...]] = {fails_at: ("lost_before", "lost_before")}
    return [
        call("hold_stock", *spent.get("A", ()), undo=undo_flight),
        call("make_cluster", *spent.get("B", ()), undo=undo_hotel),
        call("hold_money", *spent.get("C", ())),
        call("send_note", *spent.get("D", ())),
    ]  # fmt: skip


def letters(steps: list[int]) -> list[str]:
    return ["ABCD"[no - 1] for no in steps]


def test_every_scenario_is_played() -> None:
    assert set(SCENARIOS) == {*FAILS_AT, *ELSEWHERE, *NO_SAGA}


@pytest.mark.parametrize("scenario", FAILS_AT)
async def test_forward_steps_and_undos_are_those_of_the_scenario(stage: Stage, scenario: str) -> None:
    played = await stage.play(*trip(FAILS_AT[scenario]))

    expected = SCENARIOS[scenario]
    assert letters(sorted(played.rows("do"))) == (["A", "B", "C"] if expected.forward is None else expected.forward)
    assert letters(played.undone) == expected.undo
    completed = expected.outcome == "completed"
    assert played.report.state is (SagaState.COMMITTED if completed else SagaState.COMPENSATED)


async def test_an_undo_that_fails_once_cancels_the_hotel_exactly_once(stage: Stage) -> None:
    played = await stage.play(*trip("D", undo_hotel=("lost_after",)))

    assert played.report.state is SagaState.COMPENSATED
    assert played.reached.count("2 undo begins") == 2
    assert letters(played.undone) == ["C", "B", "A"]


async def test_an_undo_that_fails_for_good_is_named_with_its_reason_wherever_an_operator_looks(stage: Stage) -> None:
    played = await stage.play(*trip("D", undo_flight=("refused",)))

    assert played.report.state is SagaState.NEEDS_ATTENTION
    assert [(left.step_no, left.message) for left in played.report.residuals] == [
        (1, "undo_hold_stock failed: ToolRefused: undo of step 1 is refused")
    ]
    shown = await read_saga(stage.client, played.report.id)
    assert shown.state is SagaState.NEEDS_ATTENTION
    assert shown.residuals == played.report.residuals
    assert (shown.steps[0].compensation, shown.steps[0].message) == (
        Compensation.FAILED,
        "undo of step 1 is refused",
    )


async def test_an_operator_sees_what_the_world_sees_in_the_middle_of_a_rollback(stage: Stage) -> None:
    seen: list[tuple[SagaReport, list[int]]] = []

    async def look() -> None:
        handle = stage.client.get_workflow_handle(stage.started[-1])
        status: SagaReport = await handle.query("status", result_type=SagaReport)
        undone = [row for row in await stage.world.ledger() if row.direction == "undo"]
        seen.append((status, [int((row.key or "").split(":")[1]) for row in undone]))

    await stage.play(*trip("D"), acts={"2 undo begins": look})

    status, undone = seen[0]
    assert status.state is SagaState.COMPENSATING
    assert [step.outcome for step in status.steps[:3]] == [Outcome.DONE] * 3
    assert [step.compensation for step in status.steps[:3]] == [
        Compensation.PENDING,
        Compensation.PENDING,
        Compensation.DONE,
    ]
    assert undone == [3]


@pytest.fixture
async def unattended(temporal_local: Client, world: WorldUnderTest) -> AsyncGenerator[Stage]:
    """A stage without a worker."""
    stage = Stage(temporal_local, f"unattended-{uuid.uuid4().hex[:12]}", world)
    async with providers_at(world.url):
        yield stage
    await stage.replay()


async def test_a_rollback_goes_on_with_another_worker_and_undoes_nothing_twice(unattended: Stage) -> None:
    stage = unattended
    stopped = asyncio.Event()

    async def first_worker() -> None:
        async with stage.worker(cached=0):
            await stopped.wait()

    first = asyncio.create_task(first_worker())

    async def stop() -> None:
        stopped.set()

    async def play() -> None:
        played = await stage.play(*trip("D", undo_hotel=("hangs_before",)), acts={"2 undo begins": stop})
        assert played.report.state is SagaState.COMPENSATED
        assert letters(played.undone) == ["C", "B", "A"]

    playing = asyncio.create_task(play())
    await first
    async with stage.worker(cached=0):
        await playing
