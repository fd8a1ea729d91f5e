"""A turn or a session that an operator resets, while its model decides otherwise the second time."""

from collections.abc import Callable
from pathlib import Path

import pytest
from temporalio.client import WorkflowHandle

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.messages import as_json
from countermand.agents.scripted import ScriptStep
from countermand.agents.session import ChatSession
from countermand.agents.think import cached_model
from countermand.saga import CauseKind, SagaState
from countermand.testing.env import SagaEnv
from countermand.testing.waiting import until
from tests.agents.orders import BYE, CHARGE, CLUSTER, COMMIT, MAIL, QUOTE, RESERVE, TEXT, calls
from tests.saga.orders import EFFECTS, standing_kinds
from tests.saga.resetting import reset, reset_points

Script = Callable[..., str]
Handle = WorkflowHandle[AgentSaga, TurnResult]

THIRD_THOUGHT = 4
"""The workflow task, from 0, that asks the model for the third time: each thought and each call is one."""

ABORT = calls(("abort", {"reason": "it is too dear"}))
PLACED = (QUOTE, RESERVE, CHARGE, COMMIT, BYE)


async def reset_to_decide(env: SagaEnv, script: Script, first: tuple[ScriptStep, ...], *anew: ScriptStep) -> Handle:
    """Run a turn that its model plays so, and reset it to the third thought, which the model now plays otherwise."""
    model = script(*first)
    turn = await env.start_turn("An order", model=model)
    await turn.result()
    _rewrite(model, script(*anew))
    points, run_id = await reset_points(env.client, turn.id)
    new = await reset(env.client, turn.id, run_id, points[THIRD_THOUGHT])
    return env.client.get_workflow_handle_for(AgentSaga.run, turn.id, run_id=new)


def _rewrite(model: str, other: str) -> None:
    path, anew = (Path(name.removeprefix("script:")) for name in (model, other))
    path.write_text(anew.read_text("utf-8"), "utf-8")
    cached_model.cache_clear()


async def test_the_same_decisions_commit_the_same_order(saga_env: SagaEnv, script: Script) -> None:
    turn = await reset_to_decide(saga_env, script, PLACED, *PLACED)

    assert (await turn.result()).saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == ["payment", "reservation"]


@pytest.mark.parametrize(
    "anew",
    [
        (QUOTE, RESERVE, COMMIT, BYE),
        (QUOTE, RESERVE, CLUSTER, COMMIT, BYE),
        (QUOTE, RESERVE, ABORT),
    ],
    ids=["less", "another step", "nothing"],
)
async def test_what_was_done_before_the_reset_and_is_not_decided_again_is_undone(
    saga_env: SagaEnv, script: Script, anew: tuple[ScriptStep, ...]
) -> None:
    turn = await reset_to_decide(saga_env, script, PLACED, *anew)

    saga = (await turn.result()).saga
    assert saga.state is SagaState.COMPENSATED
    assert saga.cause is not None
    assert saga.cause.kind is (CauseKind.ABORTED if ABORT in anew else CauseKind.TERMINATED)
    assert await saga_env.world.done() == [
        "inventory.reserve", "payments.authorize", "payments.void", "inventory.release",
    ]  # fmt: skip


async def test_a_mail_that_went_out_before_the_reset_leaves_the_order_to_a_person(
    saga_env: SagaEnv, script: Script
) -> None:
    turn = await reset_to_decide(saga_env, script, (QUOTE, RESERVE, MAIL, COMMIT, BYE), QUOTE, RESERVE, COMMIT, BYE)

    saga = (await turn.result()).saga
    assert saga.state is SagaState.NEEDS_ATTENTION
    assert [residual.tool for residual in saga.residuals] == ["reserve_stock", "send_confirmation"]
    assert await standing_kinds(saga_env) == ["message", "reservation"]


async def test_a_session_that_is_reset_asks_what_its_turns_came_to(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    placed = await talk.say(TEXT, confirmed=True)
    session = saga_env.client.get_workflow_handle_for(ChatSession.run, talk.chat.session)
    points, run_id = await reset_points(saga_env.client, session.id)
    await reset(saga_env.client, session.id, run_id, points[0])

    async def knows() -> bool:
        return (await session.query(ChatSession.context)).messages[-len(placed.messages) :] == as_json(placed.messages)

    await until(knows)
    repeated = await talk.say("yes", confirmed=True)
    assert repeated.turn == placed.turn + 1
    assert await standing_kinds(saga_env) == sorted(EFFECTS)
