import asyncio

import pytest
from langchain_core.messages import AIMessage
from temporalio.client import WorkflowHandle

from countermand.agents.agent_saga import AgentSaga, TurnResult
from countermand.agents.chat import SessionClosed
from countermand.agents.messages import unanswered
from countermand.agents.session import ChatSession, TurnState
from countermand.saga import SagaState
from countermand.testing.env import SagaEnv, Talk
from countermand.testing.waiting import until
from tests.saga.orders import EFFECTS, standing_kinds

ORDER = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers"


def saga_of(env: SagaEnv, result_id: str) -> WorkflowHandle[AgentSaga, TurnResult]:
    return env.client.get_workflow_handle_for(AgentSaga.run, result_id)


def session_of(env: SagaEnv, talk: Talk) -> WorkflowHandle[ChatSession, object]:
    return env.client.get_workflow_handle_for(ChatSession.run, talk.chat.session)


async def test_an_order_is_quoted_first_and_placed_when_it_is_confirmed(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()

    quoted = await talk.say(ORDER)
    before = await saga_env.world.standing()
    placed = await talk.say("yes")

    assert "185.00 USD" in quoted.text
    assert before == []
    assert placed.saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


async def test_the_same_turn_id_sent_twice_is_one_order(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()

    first, second = await asyncio.gather(*(talk.say(ORDER, confirmed=True, turn_id="once") for _ in range(2)))
    third = await talk.say(ORDER, confirmed=True, turn_id="once")

    assert first == second == third
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


async def test_two_identical_orders_are_two_orders(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()

    await talk.say(ORDER, confirmed=True)
    await talk.say(ORDER, confirmed=True)

    kinds = await standing_kinds(saga_env)
    assert kinds.count("payment") == kinds.count("cluster") == 2


async def test_an_order_that_failed_and_is_ordered_again_stands_once(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    await saga_env.world.fault("dns.register", "http_503")

    failed = await talk.say(ORDER, confirmed=True)
    await saga_env.world.clear_faults()
    placed = await talk.say("yes please, try again: " + ORDER, confirmed=True)

    assert (failed.saga.state, placed.saga.state) == (SagaState.COMPENSATED, SagaState.COMMITTED)
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


async def test_a_turn_that_comes_while_one_runs_is_queued_and_says_so(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    fault = await saga_env.world.fault("dns.register", "slow", delay_s=1)
    first = await talk.begin(ORDER, confirmed=True)
    await until(lambda: saga_env.world.fired(fault))

    second = await talk.begin("hello")

    assert (first.state, second.state) == (TurnState.RUNNING, TurnState.QUEUED)
    assert (await talk.chat.result(second)).turn == 2
    assert (await talk.chat.result(first)).saga.state is SagaState.COMMITTED


async def test_the_order_just_placed_can_be_taken_back_but_for_its_mail(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    await talk.say(ORDER, confirmed=True)

    result = await talk.say("cancel the order I just placed")
    again = await talk.say("cancel the order I just placed")

    assert result.saga.state is SagaState.COMMITTED
    assert "send_confirmation" in result.text
    assert "no order" in again.text
    assert await standing_kinds(saga_env) == ["message"]


@pytest.mark.parametrize(
    "operation",
    [
        "inventory.reserve",
        "payments.authorize",
        "cloud.create_cluster",
        "cloud.create_load_balancer",
        "dns.register",
        "payments.capture",
        "mail.send",
    ],
)
@pytest.mark.parametrize("effect", ["before", "after"])
async def test_a_cancelled_turn_is_undone_or_done_and_says_why(saga_env: SagaEnv, operation: str, effect: str) -> None:
    talk = saga_env.chat()
    fault = await saga_env.world.fault(operation, "slow", effect=effect, delay_s=1)
    turn = await talk.begin(ORDER, confirmed=True)
    await until(lambda: saga_env.world.fired(fault))

    await talk.chat.cancel(turn, "the customer left")
    result = await talk.chat.result(turn)

    assert result.saga.cancelled
    assert result.saga.cause is not None
    assert result.saga.cause.message == "the customer left"
    if result.saga.state is SagaState.COMMITTED:
        assert await standing_kinds(saga_env) == sorted(EFFECTS)
    else:
        assert result.saga.state is SagaState.COMPENSATED
        assert await saga_env.world.standing() == []


async def test_a_cancelled_turn_leaves_a_conversation_that_goes_on(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    fault = await saga_env.world.fault("dns.register", "slow", delay_s=1)
    turn = await talk.begin(ORDER, confirmed=True)
    await until(lambda: saga_env.world.fired(fault))
    await talk.chat.cancel(turn, "a mistake")
    cancelled = await talk.chat.result(turn)
    await saga_env.world.clear_faults()

    placed = await talk.say(ORDER, confirmed=True)

    assert unanswered(cancelled.messages) == []
    assert isinstance(cancelled.messages[-1], AIMessage)
    assert placed.saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


async def test_a_cancelled_session_waits_for_its_saga_and_then_closes(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    fault = await saga_env.world.fault("dns.register", "slow", delay_s=1)
    turn = await talk.begin(ORDER, confirmed=True)
    await until(lambda: saga_env.world.fired(fault))

    await session_of(saga_env, talk).cancel(reason="maintenance")
    result = await saga_of(saga_env, turn.saga_id).result()
    await session_of(saga_env, talk).result()

    assert result.saga.cancelled
    assert result.saga.cause is not None
    assert result.saga.cause.message == "maintenance"
    assert await saga_env.world.standing() == []
    with pytest.raises(SessionClosed):
        await talk.say("hello")


async def test_a_terminated_session_leaves_its_saga_to_a_clean_end(saga_env: SagaEnv) -> None:
    talk = saga_env.chat()
    fault = await saga_env.world.fault("dns.register", "slow", delay_s=1)
    turn = await talk.begin(ORDER, confirmed=True)
    await until(lambda: saga_env.world.fired(fault))

    await session_of(saga_env, talk).terminate("gone")

    assert (await talk.chat.result(turn)).saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


@pytest.mark.parametrize("persona", ["careless", "order"])
async def test_wrong_arguments_are_mended_by_the_model(saga_env: SagaEnv, persona: str) -> None:
    talk = saga_env.chat(model=f"stub:{persona}")

    placed = await talk.say(ORDER, confirmed=True)

    assert placed.saga.state is SagaState.COMMITTED
    assert await standing_kinds(saga_env) == sorted(EFFECTS)


@pytest.mark.parametrize(("persona", "cause"), [("looping", "limit"), ("forgetful", "not_committed")])
async def test_a_model_that_does_not_end_is_stopped_and_undone(saga_env: SagaEnv, persona: str, cause: str) -> None:
    talk = saga_env.chat(model=f"stub:{persona}")

    result = await talk.say(ORDER, confirmed=True)

    assert result.saga.cause is not None
    assert result.saga.cause.kind == cause
    if persona == "looping":
        assert await saga_env.world.standing() == []


async def test_turns_that_wait_do_not_begin_after_their_session_was_cancelled(saga_env: SagaEnv) -> None:
    fault = await saga_env.world.fault("dns.register", "hang")
    talk = saga_env.chat()
    first = await talk.begin(ORDER, confirmed=True)
    await until(lambda: saga_env.world.fired(fault))
    await talk.begin(ORDER.replace("ada.example.dev", "eve.example.dev"), confirmed=True)

    await session_of(saga_env, talk).cancel(reason="maintenance")
    await session_of(saga_env, talk).result()

    assert (await talk.chat.result(first)).saga.state is SagaState.COMPENSATED
    assert await saga_env.world.standing() == []
    assert (await saga_env.world.done()).count("payments.authorize") == 1
