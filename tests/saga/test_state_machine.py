"""Random plans, random troubles in every call, cancels at random moments: the world stays whole."""

import asyncio
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.saga.scripted import UndoTo
from tests.saga.stage import Action, Call, Stage
from tests.saga.troubled import Effort, Trouble

ALL: list[Trouble] = list(get_args(Trouble))
# Nothing fences a mail: an attempt that outlives start-to-close is more than any saga can mend.
IN_TIME: list[Trouble] = [trouble for trouble in ALL if trouble != "late"]
PROBE: list[Trouble] = ["none", "lost_before", "refused"]

TOGETHER = 8
"""So many sagas are played side by side."""


def troubles(kinds: list[Trouble]) -> st.SearchStrategy[tuple[Trouble, ...]]:
    """What the attempts of a call meet: most calls nothing."""
    some = st.lists(st.sampled_from(kinds), min_size=1, max_size=2).map(tuple)
    return st.one_of(st.just(()), st.just(()), some)


def efforts(forward: list[Trouble]) -> st.SearchStrategy[Effort]:
    """A call's whole trouble."""
    return st.builds(Effort, forward=troubles(forward), undo=troubles(IN_TIME), probe=troubles(PROBE))


REVERSIBLE = ["hold_stock", "hold_money", "make_cluster", "write_route", "try_stock", "look_up"]
calls: st.SearchStrategy[Call] = st.builds(Call, tool=st.sampled_from(REVERSIBLE), effort=efforts(ALL))
groups = st.lists(calls, min_size=1, max_size=3).map(tuple)
mails: st.SearchStrategy[Call] = st.builds(Call, tool=st.just("send_note"), effort=efforts(IN_TIME))
cancels = st.lists(st.integers(1, 30), max_size=2, unique=True).map(tuple)


@st.composite
def plans(draw: st.DrawFn) -> list[Action]:
    """Groups of steps and savepoints; a mail, if any, in the last group that has an effect; then a read."""
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
        actions.append(Call(tool="look_up", effort=draw(efforts(ALL))))
    return actions


Scenario = tuple[list[Action], bool, tuple[int, ...]]
scenarios: st.SearchStrategy[Scenario] = st.tuples(plans(), st.booleans(), cancels)


@settings(max_examples=settings().max_examples // TOGETHER)
@given(together=st.lists(scenarios, min_size=TOGETHER, max_size=TOGETHER))
async def test_whatever_happens_every_saga_ends_whole(stage: Stage, together: list[Scenario]) -> None:
    plays = [stage.play(*actions, careless=careless, cancel_at=at) for actions, careless, at in together]
    for played in await asyncio.gather(*plays, return_exceptions=True):
        if isinstance(played, BaseException):
            raise played
    await stage.replay()
