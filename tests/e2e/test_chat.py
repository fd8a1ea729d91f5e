"""``countermand chat`` as a user calls it: an order commits, or nothing of it stands."""

import json
import os
import signal
import uuid
from collections.abc import Callable

import pytest
from temporalio.client import Client

from countermand.agents.agent_saga import TurnResult
from countermand.agents.scripted import RawCall, ScriptCall, ScriptStep
from countermand.agents.session import MAX_TEXT, ChatSession
from countermand.cli import main
from countermand.saga import SagaState
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.world.control import State
from tests.countermand.embedded.commands import Commands, Ran, Running
from tests.saga.orders import EFFECTS

ORDER = "a medium environment in eu-west for ada@example.com at ada.example.dev, two load balancers"


def turn_of(ran: Ran) -> TurnResult:
    """The one turn that a command with ``--json`` told of, in the form that programs rely on."""
    (line,) = ran.out.splitlines()
    told = json.loads(line)
    text = told.pop("text")
    return TurnResult.model_validate({**told, "messages": [{"type": "ai", "content": text}]})


async def order(commands: Commands, *more: str) -> Ran:
    return await commands.run("chat", "--yes", "-m", ORDER, "--json", *more)


def kinds(state: State) -> list[str]:
    return sorted(effect.kind for effect in state.standing)


def stock(state: State) -> int:
    return next(plan.stock for plan in state.inventory.plans if plan.plan == "medium")


async def test_an_order_commits_and_all_of_it_stands(commands: Commands, embedded_world: WorldUnderTest) -> None:
    before = stock(await embedded_world.state())

    ran = await order(commands)
    state = State.model_validate_json((await commands.run("world", "state", "--json")).out)

    turn = turn_of(ran)
    assert (ran.code, ran.err, turn.saga.state) == (0, "", SagaState.COMMITTED)
    assert [payment.amount_captured for payment in state.payments.payments] == [18500]
    assert kinds(state) == sorted(EFFECTS)
    assert before - stock(state) == 1
    shown = await commands.run("saga", "show", turn.saga.id, "--json")
    assert shown.code == 0
    assert f'"id": "{turn.saga.id}"' in shown.out
    assert turn.saga.id in (await commands.run("saga", "list", "--state", "committed", "--limit", "1")).out


async def test_a_provider_that_fails_has_all_undone_in_reverse(
    commands: Commands, embedded_world: WorldUnderTest
) -> None:
    broken = await commands.run("world", "fault", "add", "--operation", "dns.register", "--kind", "http_503")

    ran = await order(commands)

    turn = turn_of(ran)
    assert (broken.code, ran.code, turn.saga.state) == (0, 3, SagaState.COMPENSATED)
    assert await embedded_world.standing() == []
    undone = [step.undo_no for step in turn.saga.steps if step.undo_no]
    assert undone == sorted(undone, reverse=True)
    assert len(undone) >= 5
    assert turn.saga.cause is not None
    assert turn.saga.steps[(turn.saga.cause.step_no or 0) - 1].tool == "register_domain_route"


async def test_a_record_whose_answer_was_lost_is_undone_too(commands: Commands, embedded_world: WorldUnderTest) -> None:
    await embedded_world.fault("dns.register", "http_503", effect="after")

    ran = await order(commands)

    assert ran.code == 3
    assert {"dns.register", "dns.unregister"} <= set(await embedded_world.done())
    assert await embedded_world.standing() == []


async def test_a_declined_card_leaves_nothing_reserved(commands: Commands, embedded_world: WorldUnderTest) -> None:
    await embedded_world.fault("payments.authorize", "decline")

    ran = await order(commands)

    assert ran.code == 3
    assert "declined" in turn_of(ran).text
    assert await embedded_world.standing() == []


async def test_what_can_not_be_ordered_is_told_and_has_no_effect(
    commands: Commands, embedded_world: WorldUnderTest
) -> None:
    """One command says them all, each under a turn of its own."""
    wrong = {
        "a huge environment in eu-west for ada@example.com at ada.example.dev": "huge",
        "a small environment in region mars-north for ada@example.com at ada.example.dev": "mars-north",
        "0 small environments in eu-west for ada@example.com at ada.example.dev": "quantity 0",
        "-1 small environments in eu-west for ada@example.com at ada.example.dev": "quantity -1",
        "1000000000 small environments in eu-west for ada@example.com at ada.example.dev": "quantity 1000000000",
        "10^9 small environments in eu-west for ada@example.com at ada.example.dev": "quantity 1000000000",
        "a small environment in eu-west for ada@@example at ada.example.dev": "ada@@example",
        "a small environment in eu-west for ada@example.com, host name ada_.example": "hostname",
    }

    ran = await commands.run("chat", "--yes", "--json", *(word for text in wrong for word in ("-m", text)))

    turns = [turn_of(Ran(0, line, "")) for line in ran.out.splitlines()]
    assert (ran.code, ran.err) == (0, "")
    for turn, named in zip(turns, wrong.values(), strict=True):
        assert named in turn.text
    assert await embedded_world.ledger() == []


async def test_a_model_that_calls_what_can_not_be_called_is_told_so_and_has_no_effect(
    commands: Commands, embedded_world: WorldUnderTest, script: Callable[..., str]
) -> None:
    model = script(
        ScriptStep(calls=(ScriptCall(tool="launch_rocket"),)),
        ScriptStep(raw_calls=(RawCall(tool="quote_order", args='{"plan": "sm'),)),
        ScriptStep(calls=(ScriptCall(tool="reserve_stock"),)),
        ScriptStep(calls=(ScriptCall(tool="reserve_stock", args={"quote_id": [1]}),)),
        ScriptStep(say="I give up."),
    )

    ran = await order(commands, "--model", model)

    turn = turn_of(ran)
    assert (ran.code, turn.text, turn.saga.steps) == (0, "I give up.", ())
    assert await embedded_world.ledger() == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--session", "a/b"), "--session: use 1 to 64 letters"),
        (("--session", "a" * 10_240), "--session: use 1 to 64 letters"),
        (("--session", "a\n"), "--session: use 1 to 64 letters"),
        (("--session", ""), "--session: use 1 to 64 letters"),
        (("-m", ""), "-m 2: a message has 1 to "),
        (("-m", "a" * (MAX_TEXT + 1)), "-m 2: a message has 1 to "),
        (("--model", "gpt"), "--model: 'gpt' names no model"),
        (("--model", "stub:rude"), "--model: the stub has no persona 'rude'"),
        (("--model", "script:/no/such"), "--model: there is no script"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line_before_anything_is_started(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    assert main.run(["chat", "-m", "hello", *arguments]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"error: {problem}")
    assert told.err.count("\n") == 1


async def test_a_conversation_goes_on_in_another_command_until_it_is_closed(
    commands: Commands, running: Running, embedded_world: WorldUnderTest
) -> None:
    session = f"two-commands-{uuid.uuid4().hex[:8]}"

    quoted = await commands.run("chat", "--session", session, "-m", ORDER)
    before = await embedded_world.standing()
    placed = await commands.run("chat", "--session", session, "-m", "yes")
    client = await Client.connect(running.endpoints.temporal_host, namespace=running.endpoints.namespace)
    await client.get_workflow_handle(session).signal(ChatSession.close)
    await client.get_workflow_handle(session).result()
    closed = await commands.run("chat", "--session", session, "-m", "hello")

    assert (quoted.code, quoted.err, before) == (0, "", [])
    assert "Total: 185.00 USD" in quoted.out
    assert (placed.code, placed.err) == (0, "")
    assert kinds(await embedded_world.state()) == sorted(EFFECTS)
    assert (closed.code, closed.out) == (1, "")
    assert closed.err == f"error: session '{session}' is closed: choose another --session\n"


async def test_ctrl_c_stops_a_turn_undoes_it_and_leaves_the_conversation(
    commands: Commands, embedded_world: WorldUnderTest
) -> None:
    slow = await embedded_world.fault("dns.register", "slow", delay_s=3, times=1)

    async with commands.in_terminal("chat", "--yes") as terminal:
        await terminal.shows("you> ")
        terminal.type(ORDER + "\n")
        await until(lambda: embedded_world.fired(slow))
        terminal.type("\x03")
        await terminal.shows("Stopping this turn")
        await terminal.shows("Rolled back: the customer stopped it")
        stands = await embedded_world.standing()
        await terminal.shows("you> ")
        terminal.type("half a line\x03")
        await terminal.shows("you> ")
        terminal.type("hello\n")
        await terminal.shows("stub model")
        await terminal.shows("you> ")
        terminal.type("\x04")
        await terminal.shows("Go on with: countermand chat --session chat-")
        assert await terminal.process.wait() == 3

    assert stands == []


async def test_ctrl_c_in_a_script_undoes_the_turn_says_no_further_message_and_exits_130(
    commands: Commands, embedded_world: WorldUnderTest
) -> None:
    slow = await embedded_world.fault("dns.register", "slow", delay_s=3, times=1)
    process = await commands.start("chat", "--yes", "-m", ORDER, "-m", ORDER, "--json")
    await until(lambda: embedded_world.fired(slow))

    process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()

    turn = turn_of(Ran(process.returncode, out.decode(), ""))
    assert process.returncode == 130
    assert (turn.saga.state, turn.saga.cancelled) == (SagaState.COMPENSATED, True)
    assert await embedded_world.standing() == []


async def test_an_order_whose_worker_is_killed_between_cluster_and_route_ends_by_itself(
    commands: Commands, running: Running, embedded_world: WorldUnderTest
) -> None:
    slow = await embedded_world.fault("dns.register", "slow", delay_s=3, times=1)
    process = await commands.start("chat", "--yes", "-m", ORDER, "--json")
    await until(lambda: embedded_world.fired(slow))

    os.kill(running.server("worker --queues chats"), signal.SIGKILL)
    out, _ = await process.communicate()

    turn = turn_of(Ran(process.returncode, out.decode(), ""))
    assert (process.returncode, turn.saga.state) == (0, SagaState.COMMITTED)
    assert kinds(await embedded_world.state()) == sorted(EFFECTS)
    done = await embedded_world.done()
    assert (done.count("payments.capture"), done.count("cloud.create_cluster")) == (1, 1)
