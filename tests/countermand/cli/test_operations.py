"""The commands that operators run on a configured server: setup, recover --status, reconcile."""

import asyncio
import json
import os
import sys
from datetime import timedelta

from pydantic import JsonValue
from temporalio.client import Client

from countermand.saga.janitor import SWEEP_EVERY
from countermand.saga.reconcile import Reconciliation
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from countermand.worker import build_worker
from tests.namespaces import new_namespace


async def countermand(client: Client, world: str, *arguments: str) -> tuple[int, str, str]:
    """Run a command against a server; its exit code, output and errors."""
    configured = {
        "COUNTERMAND_TEMPORAL_HOST": client.service_client.config.target_host,
        "COUNTERMAND_NAMESPACE": client.namespace,
        "COUNTERMAND_TASK_QUEUE": client.namespace,
        "COUNTERMAND_WORLD_URL": world,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "countermand", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, **configured},
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


def parsed(output: str) -> dict[str, JsonValue]:
    return json.loads(output)


async def test_setup_makes_a_namespace_ready_and_the_janitor_runs(
    temporal_local: Client, world: WorldUnderTest
) -> None:
    client = await new_namespace(temporal_local, retention=timedelta(days=1))
    code, _, complaint = await countermand(client, world.url, "recover", "--status")
    assert (code, complaint) == (1, "error: there is no janitor: 'countermand setup' makes its schedule\n")

    code, out, _ = await countermand(client, world.url, "setup", "--json")
    again, out_again, warning = await countermand(client, world.url, "setup")

    assert (code, again) == (0, 0)
    first = parsed(out)
    assert (first["registered"], first["retention_days"], first["sweep_every_s"]) == (True, 1, 10)
    assert "SagaState is there" in out_again
    assert "kept for 1 days" in warning

    async with build_worker(client, task_queue=client.namespace):

        async def swept() -> bool:
            janitor = await client.get_schedule_handle("janitor").describe()
            return bool(janitor.info.recent_actions)

        await until(swept, deadline=SWEEP_EVERY.total_seconds() + 10)
        code, out, _ = await countermand(client, world.url, "recover", "--status", "--json")
    assert (code, parsed(out)["problem"]) == (0, "")

    await client.get_schedule_handle("janitor").pause()
    code, _, complaint = await countermand(client, world.url, "recover", "--status")
    assert code == 1
    assert "paused" in complaint


async def test_setup_of_a_namespace_that_is_not_there_says_how_to_make_it(
    temporal_local: Client, world: WorldUnderTest
) -> None:
    host = temporal_local.service_client.config.target_host
    absent = await Client.connect(host, namespace="absent")

    code, _, complaint = await countermand(absent, world.url, "setup")

    assert code == 1
    assert "has no namespace absent: create it" in complaint
    assert complaint.count("\n") == 1


async def test_reconcile_lists_an_orphan_and_holds_it_when_told_to(
    temporal_local: Client, world: WorldUnderTest
) -> None:
    client = await new_namespace(temporal_local, retention=timedelta(days=7))
    await countermand(client, world.url, "setup")
    await world.call("inventory.reserve", "nobody:2", plan="small")

    code, out, _ = await countermand(client, world.url, "reconcile", "--json")
    mended, told, _ = await countermand(client, world.url, "reconcile", "--mend")

    assert (code, mended) == (4, 4)
    found = parsed(out)
    assert found.pop("mended") is None
    assert [one.key for one in Reconciliation.model_validate(found).findings] == ["nobody:2"]
    assert "held for an operator: countermand saga show nobody" in told
