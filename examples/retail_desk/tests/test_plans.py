"""Every plan as an agent's saga: unbroken it leaves exactly what it should, broken anywhere it leaves nothing."""

import asyncio
from collections.abc import Callable, Iterator

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

Script = Callable[..., str]
Waves = Callable[[list[Plan]], list[list[Plan]]]

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


@pytest.fixture(scope="session")
def some_waves(full: bool) -> Waves:
    """The waves that are broken: all of them, or the first of each set."""
    return lambda plans: list(waves(plans))[: None if full else 1]


class Desk:
    """Plays plans as an agent's sagas, all at once."""

    def __init__(self, env: SagaEnv, team: Team, script: Script) -> None:
        self._env, self._team, self._script = env, team, script

    async def play(self, *scripts: tuple[ScriptStep, ...]) -> list[TurnResult]:
        """Run one saga a script."""
        started = [
            await self._env.start_turn("As we said, please.", model=self._script(*steps), team=self._team)
            for steps in scripts
        ]
        return list(await asyncio.gather(*(saga.result() for saga in started)))


@pytest.fixture
def desk(saga_env: SagaEnv, team: Team, script: Script) -> Desk:
    return Desk(saga_env, team, script)


@each_set
async def test_plans_that_nothing_disturbs_leave_exactly_what_they_should(cases: Cases, desk: Desk, shop: Shop) -> None:
    for wave in waves(cases.plans):
        shop.fill(cases.shop)

        results = await desk.play(*(plan.script for plan in wave))

        assert {result.saga.state for result in results} == {SagaState.COMMITTED}, [one.text for one in results]
        assert shop.contents() == named(things(cases.after(*wave)))


@each_set
@pytest.mark.parametrize("write", range(1, 1 + max(len(plan.actions) for cases in ALL for plan in cases.plans)))
async def test_plans_that_break_at_a_write_leave_nothing(
    cases: Cases, write: int, some_waves: Waves, desk: Desk, shop: Shop
) -> None:
    shop.fill(cases.shop)
    start = await shop.rows()
    shop.break_step(1 + write)

    for wave in some_waves([plan for plan in cases.plans if len(plan.actions) >= write]):
        results = await desk.play(*(plan.script for plan in wave))

        assert {result.saga.state for result in results} == {SagaState.COMPENSATED}, [one.text for one in results]
        assert {sum(1 for step in result.saga.steps if step.undo_no) for result in results} == {write - 1}
        assert await shop.rows() == start


@each_set
async def test_plans_that_break_after_their_last_write_leave_nothing(
    cases: Cases, some_waves: Waves, desk: Desk, shop: Shop
) -> None:
    shop.fill(cases.shop)
    start = await shop.rows()

    for wave in some_waves(cases.plans):
        # The script ends before the commit, so the model can't be asked any more.
        results = await desk.play(*(plan.script[:-2] for plan in wave))

        assert {result.saga.state for result in results} == {SagaState.COMPENSATED}, [one.text for one in results]
        assert await shop.rows() == start


async def test_a_plan_is_undone_wherever_it_is_struck(
    saga_env: SagaEnv, team: Team, script: Script, shop: Shop, full: bool
) -> None:
    plans = [plan for cases in ALL for plan in cases.plans] if full else [OWN.plans[1]]
    for plan in plans:

        async def stage(plan: Plan = plan) -> None:
            fill(plan.cases.shop)

        points = await prove_rollback(
            saga_env, "As we said, please.", model=script(*plan.script), team=team, stage=stage, snapshot=shop.rows
        )

        assert len(points) == 4 * len(plan.actions)
