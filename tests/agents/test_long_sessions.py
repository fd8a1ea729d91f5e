"""Conversations that outlive the run of a workflow that they began in."""

import asyncio

import pytest
from temporalio.client import WorkflowHandle

from countermand.agents.chat import SessionBusy
from countermand.agents.conversation import MAX_CONVERSATION_BYTES
from countermand.agents.session import MAX_QUEUED, ChatSession, SessionInput, SessionStatus, TurnState
from countermand.testing.env import SagaEnv, Talk
from countermand.testing.waiting import until

WORDS = "x" * 2_000
MAX_RUN_BYTES = 4_000_000
"""Of the 50 MB that a history may have; 200 turns of 2 KB take half of it."""


async def started(env: SagaEnv, *, turns_per_run: int) -> Talk:
    """A conversation whose workflow continues as new after so many turns."""
    talk = env.chat()
    start = SessionInput(
        team=talk.chat.team, model=talk.chat.model, options=talk.chat.options, turns_per_run=turns_per_run
    )
    await env.client.start_workflow(ChatSession.run, start, id=talk.chat.session, task_queue=env.task_queue)
    return talk


def session_of(talk: Talk) -> WorkflowHandle[ChatSession, SessionStatus]:
    return talk.chat.client.get_workflow_handle_for(ChatSession.run, talk.chat.session)


async def sizes_of_runs(talk: Talk) -> list[int]:
    """The bytes of history of each run of the session, the newest first; waits until all are listed."""
    client = talk.chat.client
    newest = (await session_of(talk).describe()).run_id
    sizes: dict[str, int] = {}

    async def all_listed() -> bool:
        async for run in client.list_workflows(f"WorkflowId = '{talk.chat.session}'"):
            history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
            sizes[run.run_id] = sum(event.ByteSize() for event in history.events)
        return newest in sizes

    await until(all_listed)
    return [*sizes.values()]


async def test_a_conversation_of_many_turns_goes_on_and_the_history_of_its_runs_stays_bounded(
    saga_env: SagaEnv, full: bool
) -> None:
    turns, per_run = (1_001, 200) if full else (11, 4)
    talk = await started(saga_env, turns_per_run=per_run)

    first = await talk.say(f"hello, number 1 {WORDS}", turn_id="turn-1")
    results = [await talk.say(f"hello, number {turn} {WORDS}", turn_id=f"turn-{turn}") for turn in range(2, turns + 1)]

    assert [result.turn for result in results] == [*range(2, turns + 1)]
    assert await talk.say("something else", turn_id="turn-1") == first
    sizes = await sizes_of_runs(talk)
    assert len(sizes) == turns // per_run + 1
    assert max(sizes) < MAX_RUN_BYTES
    context = await session_of(talk).query(ChatSession.context)
    assert context.version == turns
    assert f"hello, number {turns} " in str(context.messages[-2]["content"])
    assert len(context.canonical) < MAX_CONVERSATION_BYTES + 10_000


async def test_turns_that_wait_when_the_session_continues_as_new_have_their_turn_once(saga_env: SagaEnv) -> None:
    talk = await started(saga_env, turns_per_run=1)

    said = await asyncio.gather(*(talk.begin(f"hello, number {n}", turn_id=f"turn-{n}") for n in range(4)))
    results = [await talk.chat.result(ticket) for ticket in said]
    again = [await talk.say("something else", turn_id=f"turn-{n}") for n in range(4)]

    assert sorted(ticket.turn for ticket in said) == [1, 2, 3, 4]
    assert results == again


async def test_a_session_closed_with_turns_waiting_serves_them_before_it_ends(saga_env: SagaEnv) -> None:
    talk = await started(saga_env, turns_per_run=1)
    waiting = [await talk.begin(f"hello, number {n}") for n in range(4)]

    await session_of(talk).signal(ChatSession.close)
    ended = await session_of(talk).result()

    assert [turn.turn_id for turn in ended.turns] == [ticket.turn_id for ticket in waiting]
    assert all(turn.state is TurnState.ENDED for turn in ended.turns)
    assert [(await talk.chat.result(ticket)).turn for ticket in waiting] == [1, 2, 3, 4]


async def test_a_session_in_which_too_many_turns_wait_says_so_and_takes_them_later(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    fault = await saga_env.world.fault("inventory.quote", "slow", delay_s=2)
    order = "a medium environment in eu-west for ada@example.com at ada.example.dev"
    running = await talk.begin(order)
    await until(lambda: saga_env.world.fired(fault))

    for n in range(MAX_QUEUED):
        await talk.begin(f"hello, number {n}")
    with pytest.raises(SessionBusy, match=f"{MAX_QUEUED} turns wait already"):
        await talk.begin("hello", turn_id="one-too-many")
    await talk.chat.result(running)

    async def taken() -> bool:
        try:
            await talk.begin("hello", turn_id="one-too-many")
        except SessionBusy:
            return False
        return True

    await until(taken)
    assert (await talk.say("hello", turn_id="one-too-many")).turn == MAX_QUEUED + 2


async def test_histories_grow_with_the_conversation_and_stay_under_six_times_its_bytes(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    said, turns_bytes = 0, 0
    sizes: dict[int, int] = {}
    for turn in range(1, 41):
        text = f"hello, number {turn} {WORDS}"
        result = await talk.say(text)
        said += len(text) + len(result.text)
        saga = await saga_env.client.get_workflow_handle(result.saga.id).fetch_history()
        turns_bytes += sum(event.ByteSize() for event in saga.events)
        if turn in {10, 20, 40}:
            session = await session_of(talk).fetch_history()
            sizes[turn] = turns_bytes + sum(event.ByteSize() for event in session.events)

    assert sizes[40] < 6 * said
    assert sizes[20] / sizes[10] == pytest.approx(2, rel=0.1)
    assert sizes[40] / sizes[20] == pytest.approx(2, rel=0.1)
