"""``countermand swarm`` as a user calls it: what each line came to, and the exit code of the worst."""

import json
import uuid

import pytest

from countermand.agents.lines import LineReport
from countermand.agents.report import SwarmReport
from countermand.saga import SagaState
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands

BAD = '{"id": "x", "plan": "huge"}\n'


def order(name: str, *, card: str = "tok_visa") -> str:
    text = f"a small environment in eu-west for ada@example.com at {name}.example.dev, card {card}"
    return json.dumps({"id": name, "text": text}) + "\n"


@pytest.fixture
def batch() -> str:
    return f"batch-{uuid.uuid4().hex[:12]}"


async def test_a_piped_batch_tells_each_saga_and_its_exit_code_is_the_worst_lines(
    commands: Commands, embedded_world: WorldUnderTest, batch: str
) -> None:
    lines = order("a") + order("b", card="tok_decline") + BAD + order("c")
    ran = await commands.run("swarm", "run", "-", "--batch", batch, "--json", piped=lines)
    told = [json.loads(line) for line in ran.out.splitlines()]
    bad = [one["bad"] for one in told if "bad" in one]
    ended = [LineReport.model_validate(one) for one in told if "bad" not in one]
    assert {(one["number"], one["field"]) for one in bad} >= {(3, "plan"), (3, "region")}
    assert sorted((one.id, one.saga.state) for one in ended) == [
        ("a", SagaState.COMMITTED),
        ("b", SagaState.COMPENSATED),
        ("c", SagaState.COMMITTED),
    ]
    assert (ran.code, ran.err) == (3, "")

    again = await commands.run("swarm", "run", "-", "--batch", batch, piped=order("a"))
    assert again.code == 1
    assert "has other lines" in again.err
    status = await commands.run("swarm", "status", batch, "--json")
    assert (status.code, json.loads(status.out)["states"]) == (3, {"committed": 2, "compensated": 1})
    report = await commands.run("swarm", "report", batch)
    assert SwarmReport.model_validate_json(report.out).total.taken == {"usd": 2 * 6_700}
    nowhere = commands.folder / "nowhere" / "report.html"
    unwritten = await commands.run("swarm", "report", batch, "--format", "html", "--output", str(nowhere))
    assert (unwritten.code, unwritten.err) == (1, f"error: {nowhere}: No such file or directory\n")
    captures = [one for one in await embedded_world.ledger() if one.operation == "payments.capture"]
    assert len(captures) == 2


async def test_good_lines_beside_a_bad_one_end_as_a_usage_error_and_strict_runs_none(
    commands: Commands, embedded_world: WorldUnderTest, batch: str
) -> None:
    strict = await commands.run("swarm", "run", "-", "--batch", batch, "--strict", piped=order("a") + BAD)
    assert strict.code == 2
    assert "line 2: plan: Input should be 'small', 'medium' or 'large', not \"huge\"" in strict.err
    assert "error: -: 1 line can't be run, see above: nothing was done" in strict.err
    assert not await embedded_world.ledger()

    ran = await commands.run("swarm", "run", "-", "--batch", batch, piped=order("a") + BAD)
    assert ran.code == 2
    assert "1 of 1 ended, 0 running, 1 committed" in ran.err


async def test_a_file_that_is_no_batch_is_a_usage_error_in_one_line(commands: Commands) -> None:
    ran = await commands.run("swarm", "run", "-", piped="")
    assert (ran.code, ran.out, ran.err) == (2, "", "error: -: empty: write one order a line\n")


async def test_a_killed_driver_loses_nothing_and_a_second_run_goes_on(
    commands: Commands, embedded_world: WorldUnderTest, batch: str
) -> None:
    lines = "".join(order(f"h{n}") for n in range(12))
    file = commands.folder.parent / f"{batch}.jsonl"
    file.write_text(lines)
    driver = await commands.start("swarm", "run", str(file), "--batch", batch, "--concurrency", "2")

    async def some_ended() -> bool:
        ran = await commands.run("swarm", "status", batch, "--json")
        return ran.code == 0 and json.loads(ran.out)["states"].get("committed", 0) >= 2

    await until(some_ended, deadline=90)
    driver.kill()
    await driver.communicate()
    ran = await commands.run("swarm", "run", str(file), "--batch", batch)
    assert ran.code == 0
    assert "12 of 12 ended, 0 running, 12 committed" in ran.err
    captures = [one for one in await embedded_world.ledger() if one.operation == "payments.capture"]
    assert len(captures) == 12


async def test_a_batch_that_was_cancelled_before_all_ran_has_not_committed(
    commands: Commands, embedded_world: WorldUnderTest, batch: str
) -> None:
    await embedded_world.fault("cloud.create_cluster", "slow", delay_s=1.0)
    lines = "".join(order(f"h{n}") for n in range(12))
    file = commands.folder.parent / f"{batch}.jsonl"
    file.write_text(lines)
    driver = await commands.start("swarm", "run", str(file), "--batch", batch, "--concurrency", "2", "--json")

    async def runs() -> bool:
        ran = await commands.run("swarm", "status", batch, "--json")
        return ran.code == 0 and json.loads(ran.out)["running"] > 0

    await until(runs, deadline=90)
    paused = await commands.run("swarm", "pause", batch, "--json")
    assert (paused.code, json.loads(paused.out)["paused"]) == (0, "paused by an operator")
    cancelled = await commands.run("swarm", "cancel", batch, "--reason", "wrong prices")
    assert cancelled.code == 3
    assert f"cancelled; 'countermand swarm resume {batch}' goes on" in cancelled.err
    await driver.communicate()
    assert driver.returncode == 3
