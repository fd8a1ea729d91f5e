"""Running the matrix: batches of cases whose blow is the same, each order held at a point of its own."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from itertools import groupby
from random import Random

from countermand.saga.types import Frozen, SagaState
from countermand.testing.waiting import until
from tests.crash.blows import strike_all, strike_one
from tests.crash.cases import UNSHARED, Case
from tests.crash.holding import Held, NotHeld, arrive, begin, check_held
from tests.crash.judge import end_state, violations
from tests.crash.stage import Stage, passed

BATCH = 12
ATTEMPTS = 6
BOUND_S = 90.0
"""I10: once the faults have stopped, every saga of a batch ends within so many seconds."""


class Verdict(Frozen):
    """What became of a case; ``seconds`` from the blow to the saga's end."""

    plan: str
    step: int
    point: str
    fault: str
    seed: int
    end_state: str
    seconds: float
    violations: tuple[str, ...] = ()


async def run_cases(stage: Stage, cases: Iterable[Case]) -> AsyncGenerator[tuple[Case, Verdict]]:
    """Run cases until each counted: a case whose order was not held when its blow fell is tried again.

    Raises:
        AssertionError: A case did not count in ``ATTEMPTS`` attempts.
    """
    left = list(cases)
    for attempt in range(ATTEMPTS):
        missed: list[Case] = []
        for batch in _batches(left):
            counted = await _run_batch(stage, batch, attempt)
            missed += [case for case in batch if case not in counted]
            for case, verdict in counted.items():
                yield case, verdict
        left = missed
    if left:
        raise AssertionError(f"never held: {', '.join(case.name for case in left)}")


def _batches(cases: list[Case]) -> list[list[Case]]:
    found: list[list[Case]] = []
    ordered = sorted(cases, key=lambda case: (case.blow, case.phase))
    for _, alike in groupby(ordered, key=lambda case: (case.blow, case.phase)):
        mine = list(alike)
        found += [mine[start : start + BATCH] for start in range(0, len(mine), BATCH)]
    return found


async def _run_batch(stage: Stage, batch: list[Case], attempt: int) -> dict[Case, Verdict]:
    """Run a batch; answers the verdicts of those that counted."""
    clock = asyncio.get_running_loop().time
    await stage.world.reset()
    held = [_new(case, case.seed(attempt)) for case in batch]
    await asyncio.gather(*(begin(stage, one) for one in held))
    await arrive(stage, held)
    struck = await _strike(stage, held)
    await stage.world.clear_faults()
    ends = await _ends(stage, held)
    # A slow call may land after everything else is over: it must find the tombstone.
    await passed(max(0.0, *(one.struck + one.late + 0.5 - clock() for one in held)))
    world = await stage.world.state()
    verdicts: dict[Case, Verdict] = {}
    for one in struck:
        end, at = ends.get(one.saga_id, (None, clock()))
        wrong = [f"I10: no end within {BOUND_S:.0f} s"] if end is None else await violations(stage, one, end, world)
        verdicts[one.case] = Verdict(
            plan=one.case.plan,
            step=one.case.step,
            point=one.case.point,
            fault=one.case.blow,
            seed=one.seed,
            end_state=end or "no end",
            seconds=round(at - one.struck, 2),
            violations=tuple(wrong),
        )
    return verdicts


def _new(case: Case, seed: int) -> Held:
    # The seed draws what varies of a case; the id must be new, since sagas' ids are reused by nobody.
    return Held(case=case, seed=seed, saga_id=f"crash-{uuid.uuid4().hex[:12]}", draw=Random(seed))  # noqa: S311 - not a secret


async def _strike(stage: Stage, held: list[Held]) -> list[Held]:
    """Let the blow fall on those that are held; answers which were."""
    blow = held[0].case.blow
    for one in held:
        one.struck = asyncio.get_running_loop().time()
    proofs = await asyncio.gather(*(_proven(stage, one, strike=blow in UNSHARED) for one in held))
    struck = [one for one, proof in zip(held, proofs, strict=True) if proof]
    if blow not in UNSHARED and struck:
        await strike_all(stage, blow, held[0].draw.uniform(0.5, 2.0))
    return struck


async def _proven(stage: Stage, held: Held, *, strike: bool) -> bool:
    try:
        await check_held(stage, held)
        if strike:
            await strike_one(stage, held)
    except NotHeld:
        return False
    return True


async def _ends(stage: Stage, held: list[Held]) -> dict[str, tuple[SagaState, float]]:
    """How each saga ended, and when; those without an end by the bound are left out."""
    clock = asyncio.get_running_loop().time
    ends: dict[str, tuple[SagaState, float]] = {}

    async def all_ended() -> bool:
        for one in held:
            if one.saga_id not in ends and (state := await end_state(stage, one.saga_id)) is not None:
                ends[one.saga_id] = (state, clock())
        await passed(0.2)
        return len(ends) == len(held)

    # Those that have no end by then are found out by their verdict.
    with suppress(AssertionError):
        await until(all_ended, deadline=BOUND_S)
    return ends
