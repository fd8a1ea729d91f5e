"""Random plans, random troubles in every call, cancels at random moments: the world stays whole."""

import asyncio
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.saga.scripted import UndoTo
from tests.saga.stage import Action, Call, Stage
from tests.saga.troubled import Effort, Trouble

FORWARD: list[Trouble] = list(get_args(Trouble))
UNDO: list[Trouble] = [trouble for trouble in FORWARD if trouble != "late"]
PROBE: list[Trouble] = ["none", "lost_before", "refused"]


def troubles(kinds: list[Trouble]) -> st.SearchStrategy[tuple[Trouble, ...]]:
    """What the attempts of a call meet: most calls nothing."""
    some = st.lists(st.sampled_from(kinds), min_size=1, max_size=2).map(tuple)
    return st.one_of(st.just(()), st.just(()), some)


efforts = st.builds(Effort, forward=troubles(FORWARD), undo=troubles(UNDO), probe=troubles(PROBE))
REVERSIBLE = ["hold_stock", "hold_money", "make_cluster", "write_route", "try_stock", "look_up"]
calls: st.SearchStrategy[Call] = st.tuples(st.sampled_from(REVERSIBLE), efforts)
groups = st.lists(calls, min_size=1, max_size=3).map(tuple)
mails: st.SearchStrategy[Call] = st.tuples(st.just("send_note"), efforts)
cancels = st.lists(st.integers(1, 30), max_size=2, unique=True).map(tuple)


@st.composite
def plans(draw: st.DrawFn) -> list[Action]:
    """Groups of steps and savepoints; an irreversible step, if any, in the last group that has an effect, then reads."""
    actions: list[Action] = []
    count = 0
    for group in draw(st.lists(groups, min_size=1, max_size=3)):
        actions.append(group)
        count += len(group)
        if draw(st.integers(0, 5)) == 0:
            actions.append(UndoTo(step_no=draw(st.integers(0, count))))
    if draw(st.booleans()):
        last = [*draw(st.lists(calls, max_size=2)), draw(mails)]
        actions.append(tuple(draw(st.permutations(last))))
        actions.append(("look_up", draw(efforts)))
    return actions


scenarios = st.tuples(plans(), st.booleans(), cancels)


def recovers(effort: Effort) -> bool:
    """Whether a call certainly ends as done, given the trouble that it meets."""
    return len(effort.forward) <= 1 and "refused" not in effort.forward and not effort.probe and len(effort.undo) <= 1


@given(batch=st.lists(scenarios, min_size=1, max_size=3))
async def test_whatever_happens_every_saga_ends_whole(
    stage: Stage, batch: list[tuple[list[Action], bool, tuple[int, ...]]]
) -> None:
    plays = [stage.play(*actions, careless=careless, cancel_at=at) for actions, careless, at in batch]
    for played in await asyncio.gather(*plays, return_exceptions=True):
        if isinstance(played, BaseException):
            raise played
    await stage.replay()
