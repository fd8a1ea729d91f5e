"""``countermand up`` and ``down``: one set of servers a state folder, started, kept and ended together."""

import asyncio
import os
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from redis.asyncio import Redis
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from countermand.embedded.endpoints import Answer
from countermand.embedded.place import owner
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest
from tests.countermand.embedded.commands import Commands, Running, alive


async def test_a_second_up_finds_the_first(shared: Commands, running: Running) -> None:
    second = await shared.run("up", "--json")

    assert second.code == 0
    assert Answer.model_validate_json(second.out) == running.answer
    told = await shared.run("up")
    assert f"supervised by process {running.process.pid}" in told.out
    assert running.endpoints.temporal_ui is not None
    assert running.endpoints.temporal_ui in told.out


async def test_every_server_answers(running: Running) -> None:
    endpoints = running.endpoints
    assert endpoints.temporal_ui is not None

    async with httpx2.AsyncClient() as http, Redis.from_url(endpoints.redis_url) as redis:
        assert (await http.get(f"{endpoints.world_url}/healthz")).is_success
        assert (await http.get(endpoints.temporal_ui, follow_redirects=True)).is_success
        assert await redis.ping()


async def test_the_namespace_keeps_histories_for_seven_days_and_knows_the_state_of_sagas(running: Running) -> None:
    client = await _client(running)

    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    assert described.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=7)
    attributes = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    assert attributes.custom_attributes["SagaState"] == IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD


async def test_every_server_listens_on_one_loopback_address_alone(running: Running) -> None:
    endpoints = running.endpoints
    assert endpoints.temporal_ui is not None

    for address in (endpoints.temporal_host, endpoints.temporal_ui, endpoints.redis_url, endpoints.world_url):
        port = urlsplit(address if "//" in address else f"//{address}").port
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", port)


async def test_a_killed_worker_is_replaced(running: Running) -> None:
    killed = running.server("worker --queues chats")
    log = Path(running.answer.logs) / "worker.log"
    os.kill(killed, signal.SIGKILL)

    async def another_serves() -> bool:
        return log.read_text().count("ready: ") > 1

    await until(another_serves)
    assert running.server("worker --queues chats") != killed


async def test_the_worker_of_swarms_steps_back_for_the_others(running: Running) -> None:
    chats, swarms = (running.server(f"worker --queues {queues}") for queues in ("chats", "swarms"))

    assert os.getpriority(os.PRIO_PROCESS, swarms) > os.getpriority(os.PRIO_PROCESS, chats)


async def test_a_killed_temporal_comes_back_at_its_address_with_all_it_knew(running: Running) -> None:
    client = await _client(running)
    await client.start_workflow("PlannedSaga", id="kept", task_queue="nobody")
    os.kill(running.server("start-dev"), signal.SIGKILL)

    async def knows_it_again() -> bool:
        try:
            return (await (await _client(running)).get_workflow_handle("kept").describe()).id == "kept"
        except RuntimeError:
            return False

    await until(knows_it_again)


async def test_a_killed_supervisor_takes_its_servers_with_it_and_the_next_one_has_lost_nothing(
    commands: Commands,
) -> None:
    async with commands.up() as first:
        servers = first.servers()
        assert len(servers) == 6
        await (await _client(first)).start_workflow("PlannedSaga", id="kept", task_queue="nobody")
        fault = await WorldUnderTest(first.endpoints.world_url).fault("dns.register", "http_503")
        first.process.kill()

        # It does not open the databases before the last server has closed them.
        async with commands.up() as second:
            assert alive(servers) == {}
            assert (await (await _client(second)).get_workflow_handle("kept").describe()).id == "kept"
            async with httpx2.AsyncClient(base_url=second.endpoints.world_url) as world:
                assert [one["id"] for one in (await world.get("/faults")).json()] == [fault.id]

            servers = second.servers()
            down = await commands.run("down", "--json")
            assert down.out == f'{{"stopped": {second.process.pid}}}\n'
            assert alive(servers) == {}
            assert await second.process.wait() == 0


async def test_ephemeral_servers_leave_nothing(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary = tmp_path_factory.mktemp("e")
    elsewhere = replace(commands, environment={"TMPDIR": str(temporary)})

    async with elsewhere.up("--ephemeral") as servers:
        assert Path(servers.answer.logs).is_relative_to(temporary)

    assert list(temporary.iterdir()) == []
    assert not commands.folder.exists()


async def test_down_says_that_nothing_ran(commands: Commands) -> None:
    ran = await commands.run("down")

    assert (ran.code, ran.out) == (0, "They did not run.\n")
    assert owner(commands.folder) is None


async def _client(running: Running) -> Client:
    return await Client.connect(running.endpoints.temporal_host, namespace=running.endpoints.namespace)
