"""A swarm whose driver, worker and Temporal server are killed one after the other ends as one that is left alone."""

import json
import os
import signal
import uuid
from dataclasses import dataclass
from pathlib import Path

from countermand.agents import swarms
from countermand.agents.lines import LineReport
from countermand.agents.swarms import NoSuchSwarm, SwarmSilent
from countermand.client import connect
from countermand.saga import SagaState
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands, Running

ENOUGH = 300.0
"""Seconds within which a share of the lines has ended, on a busy machine."""

DNS_STEP = 6
"""The step that registers the route of an order with one load balancer."""


@dataclass(frozen=True)
class Story:
    """What a batch left: each line's state, what stands of it in the world, and the money that stands."""

    states: dict[str, SagaState]
    standing: set[tuple[str, str]]
    money: dict[str, int]


def orders(count: int) -> str:
    """Orders of which every tenth is paid with a card that is declined."""
    text = "a small environment in eu-west for ada@example.com at h{}.example.dev, card {}"
    return "".join(
        json.dumps({"id": f"h{n}", "text": text.format(n, "tok_decline" if n % 10 == 0 else "tok_visa")}) + "\n"
        for n in range(count)
    )


async def told(world: WorldUnderTest, batch: str, out: str) -> Story:
    lines = [LineReport.model_validate_json(line) for line in out.splitlines()]
    state = await world.state()
    return Story(
        states={line.id: line.saga.state for line in lines},
        standing={(one.kind, one.key.removeprefix(batch)) for one in state.standing},
        money={
            payment.capture_key.removeprefix(batch): payment.amount_captured - payment.amount_refunded
            for payment in state.payments.payments
            if payment.capture_key is not None
        },
    )


async def break_some(world: WorldUnderTest, batch: str, count: int) -> None:
    """Have every tenth line refused at the DNS, after all else was provisioned."""
    await world.reset()
    for n in range(5, count, 10):
        await world.fault("dns.register", "decline", key=f"{batch}/h{n}:{DNS_STEP}")


async def test_driver_worker_and_server_are_killed_and_the_end_is_that_of_an_undisturbed_run(
    commands: Commands, running: Running, embedded_world: WorldUnderTest, tmp_path: Path, full: bool
) -> None:
    count = 500 if full else 100
    file = tmp_path / "orders.jsonl"
    file.write_text(orders(count))
    calm, struck = (f"batch-{uuid.uuid4().hex[:12]}" for _ in range(2))
    await break_some(embedded_world, calm, count)
    undisturbed = await commands.run("swarm", "run", str(file), "--batch", calm, "--json")
    expected = await told(embedded_world, calm, undisturbed.out)
    assert (undisturbed.code, len(expected.states)) == (3, count)

    await break_some(embedded_world, struck, count)
    client = await connect(running.endpoints)

    async def until_ended(share: float) -> None:
        async def ended() -> bool:
            try:
                return (await swarms.status(client, struck)).ended >= share * count
            except (NoSuchSwarm, SwarmSilent):
                return False

        await until(ended, deadline=ENOUGH)

    first = await commands.start("swarm", "run", str(file), "--batch", struck, "--json")
    await until_ended(0.4)
    first.kill()
    await first.communicate()
    second = await commands.start("swarm", "run", str(file), "--batch", struck, "--json")
    await until_ended(0.6)
    os.kill(running.server("worker --queues swarms"), signal.SIGKILL)
    await until_ended(0.8)
    os.kill(running.server("temporal server"), signal.SIGKILL)
    out, err = await second.communicate()
    assert (second.returncode, err.decode()) == (3, "")
    assert await told(embedded_world, struck, out.decode()) == expected
