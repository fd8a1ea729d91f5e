"""The world as a process: it keeps its state through a kill, stops when told, and takes many calls at once."""

import asyncio
import signal
import sqlite3
from pathlib import Path

import httpx2
import pytest

from countermand.tools.world.server import serve_world

from .caller import Caller, outcome
from .process import world_process


async def test_state_keys_tombstones_faults_and_clock_survive_a_kill(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    with world_process("--db", db) as (process, url):
        async with httpx2.AsyncClient(base_url=url) as http:
            world = Caller(http)
            first = await world.post("payments.authorize", "k", amount=1000, currency="usd")
            await world.post("inventory.release", "u", original_key="late")
            await world.set_fault("mail.send", "http_503", nth=3)
            await world.post("mail.send", "m", to=["a@example.com"], subject="s", body="b")
            await world.let_time_pass(3600)
            before = await world.state()
            process.kill()
            process.wait()

    with world_process("--db", db) as (_, url):
        async with httpx2.AsyncClient(base_url=url) as http:
            world = Caller(http)
            assert await world.state() == before
            again = await world.post("payments.authorize", "k", amount=1000, currency="usd")
            assert again.content == first.content
            assert (await world.post("inventory.reserve", "late", plan="small")).status_code == 409
            mail = [await world.post("mail.send", f"m{n}", to=["a@example.com"], subject="s", body="b") for n in (2, 3)]
            assert [answer.status_code for answer in mail] == [200, 503]
            later = (await world.post("cloud.create_cluster", "c", plan="small", region="eu-west")).json()
            assert later["created_at"] >= before.ledger[0].at + 3600


async def test_a_call_that_a_kill_cut_off_is_executed_afresh(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    with world_process("--db", db) as (process, url):
        async with httpx2.AsyncClient(base_url=url) as http:
            world = Caller(http)
            await world.set_fault("inventory.reserve", "hang", nth=1)
            hanging = asyncio.create_task(world.post("inventory.reserve", "k", plan="small"))
            await world.until_in_flight("inventory", "k")
            process.kill()
            with pytest.raises(httpx2.TransportError):
                await hanging

    with world_process("--db", db) as (_, url):
        async with httpx2.AsyncClient(base_url=url) as http:
            world = Caller(http)
            assert (await world.probe("inventory", "k")).status == "not_landed"
            assert (await world.post("inventory.reserve", "k", plan="small")).status_code == 200


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
async def test_the_process_stops_cleanly_when_told(told: signal.Signals) -> None:
    with world_process() as (process, _):
        process.send_signal(told)

        assert await asyncio.to_thread(process.wait, 10) == 0


async def test_fifty_calls_at_once_all_land_once(tmp_path: Path) -> None:
    limits = httpx2.Limits(max_connections=50)
    async with (
        serve_world(tmp_path / "world.db") as served,
        httpx2.AsyncClient(base_url=served.url, limits=limits, timeout=30) as http,
    ):
        world = Caller(http)
        await world.seed(stock={"small": 40})

        answers = await asyncio.gather(
            *(world.post("inventory.reserve", f"k{n % 50}", plan="small") for n in range(100))
        )

        assert {answer.status_code for answer in answers} <= {200, 409}
        assert await world.stock("small") == 0
        assert len(await world.effects()) == 40


async def test_nobody_can_edit_or_shorten_the_ledger(tmp_path: Path) -> None:
    db = tmp_path / "world.db"
    async with serve_world(db) as served, httpx2.AsyncClient(base_url=served.url) as http:
        await Caller(http).post("inventory.reserve", "k", plan="small")

    connection = sqlite3.connect(db)
    for tampering in ("UPDATE ledger SET key = 'other'", "DELETE FROM ledger"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(tampering)
    duplicate = (
        "INSERT INTO ledger SELECT 99, at, provider, operation, kind, id, key, direction, amount, currency FROM ledger"
    )
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        connection.execute(duplicate)
    connection.close()


async def test_a_reset_empties_everything_and_restores_the_catalogue(world: Caller) -> None:
    fresh = await world.state()
    await world.seed(stock={"small": 1}, provision_delay_s=60, cluster_quota=0)
    await world.post("inventory.reserve", "k", plan="small")
    await world.post("payments.void", "u", original_key="late")
    await world.set_fault("mail.send", "http_503")

    await world.http.post("/reset")

    assert await world.state() == fresh
    assert await world.fired() == []
    assert (await world.post("payments.authorize", "late", amount=1, currency="usd")).status_code == 200
    assert (await world.post("cloud.create_cluster", "c", plan="small", region="eu-west")).json()["status"] == "ready"


async def test_the_stage_cannot_be_set_with_a_plan_that_there_is_not(world: Caller) -> None:
    answer = await world.http.post("/seed", json={"stock": {"huge": 1}})

    assert answer.status_code == 422
    assert "stock" in answer.text


async def test_an_undo_of_a_call_that_hangs_after_its_effect_undoes_it(world: Caller) -> None:
    await world.set_fault("inventory.reserve", "hang", effect="after")
    hanging = asyncio.create_task(world.post("inventory.reserve", "k", plan="small"))
    await world.until_in_flight("inventory", "k")

    assert outcome(await world.post("inventory.release", "u", original_key="k")) == "done"

    assert await world.standing() == []
    hanging.cancel()
