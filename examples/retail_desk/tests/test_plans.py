"""Every plan as an agent's saga: unbroken it leaves exactly what it should, broken anywhere it leaves nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from countermand.agents.agent_saga import TurnResult
from countermand.agents.scripted import ScriptStep
from countermand.agents.team import Team
from countermand.saga import SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.prove import prove_rollback
from retail_desk.stock import fill, things

from .cases import ALL, OWN, Cases, Plan
from .conftest import Shop, named

AT_A_TIME = 8
SAID = "As we said, please."

Script = Callable[..., str]
Play = Callable[..., Awaitable[list[TurnResult]]]

each_set = pytest.mark.parametrize("cases", ALL, ids=["own", "gold"][: len(ALL)])


def waves(plans: list[Plan]) -> Iterator[list[Plan]]:
    """The plans, as many at a time as may be; one at a time of each customer."""
    waiting = list(plans)
    while waiting:
        wave: dict[str, Plan] = {}
        for plan in waiting:
            if len(wave) < AT_A_TIME:
                wave.setdefault(plan.user_id, plan)
        waiting = [plan for plan in waiting if plan not in wave.values()]
        yield list(wave.values())


@pytest.fixture
def play(saga_env: SagaEnv, team: Team, script: Script) -> Play:
    """Runs one saga a script, all at once."""

    async def play(*scripts: tuple[ScriptStep, ...]) -> list[TurnResult]:
        started = [await saga_env.start_turn(SAID, model=script(*steps), team=team) for steps in scripts]
        return list(await asyncio.gather(*(saga.result() for saga in started)))

    return play


@each_set
async def test_plans_that_nothing_disturbs_leave_exactly_what_they_should(cases: Cases, play: Play, shop: Shop) -> None:
    for wave in waves(cases.plans):
        fill(cases.shop)

        results = await play(*(plan.script for plan in wave))

        assert {result.saga.state for result in results} == {SagaState.COMMITTED}, [one.text for one in results]
        assert shop.contents() == named(things(cases.after(*wave)))


async def test_plans_that_break_at_any_of_their_writes_leave_nothing(play: Play, shop: Shop, full: bool) -> None:
    for cases in ALL if full else [OWN]:
        fill(cases.shop)
        start = await shop.snapshot()
        for write in range(1, 1 + max(len(plan.actions) for plan in cases.plans)):
            with shop.broken_at(1 + write):
                for wave in waves([plan for plan in cases.plans if len(plan.actions) >= write]):
                    results = await play(*(plan.script for plan in wave))

                    ended = {(one.saga.state, sum(1 for step in one.saga.steps if step.undo_no)) for one in results}
                    assert ended == {(SagaState.COMPENSATED, write - 1)}, [one.text for one in results]
                    assert await shop.snapshot() == start


@each_set
async def test_plans_that_break_after_their_last_write_leave_nothing(
    cases: Cases, play: Play, shop: Shop, full: bool
) -> None:
    fill(cases.shop)
    start = await shop.snapshot()

    for wave in list(waves(cases.plans))[: None if full else 1]:
        # The script ends before the commit, so the model can't be asked any more.
        results = await play(*(plan.script[:-2] for plan in wave))

        assert {result.saga.state for result in results} == {SagaState.COMPENSATED}, [one.text for one in results]
        assert await shop.snapshot() == start


@each_set
async def test_plans_that_break_leave_no_trace_on_those_beside_them(cases: Cases, play: Play, shop: Shop) -> None:
    fill(cases.shop)
    wave = next(waves(cases.plans))
    whole, broken = wave[::2], wave[1::2]

    results = await play(*(plan.script for plan in whole), *(plan.script[:-2] for plan in broken))

    assert [result.saga.state for result in results] == (
        [SagaState.COMMITTED] * len(whole) + [SagaState.COMPENSATED] * len(broken)
    )
    assert shop.contents() == named(things(cases.after(*whole)))


async def test_a_plan_is_undone_wherever_it_is_struck(
    saga_env: SagaEnv, team: Team, script: Script, shop: Shop, full: bool
) -> None:
    plans = [plan for cases in ALL for plan in cases.plans] if full else [OWN.plans[1]]
    for plan in plans:

        async def stage(plan: Plan = plan) -> None:
            fill(plan.cases.shop)

        points = await prove_rollback(
            saga_env, SAID, model=script(*plan.script), team=team, stage=stage, snapshot=shop.snapshot
        )

        assert len(points) == 4 * len(plan.actions)
