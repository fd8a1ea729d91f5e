"""The stage of the crash matrix: Temporal on a database file, the world and a worker, as processes to kill."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from countermand.embedded import servers
from countermand.embedded.endpoints import Endpoints
from countermand.embedded.process import Server, running
from countermand.saga.audit.keys import create_development_key
from countermand.saga.janitor import schedule_janitor
from countermand.saga.types import SagaOptions
from countermand.settings import Settings
from countermand.testing.proxy import TcpProxy, tcp_proxy
from countermand.testing.waiting import until
from countermand.testing.worlds import WorldUnderTest

JANITOR_EVERY = timedelta(seconds=1)
_OWN_GROUP = 0


@dataclass
class Stage:
    """What runs; the worker reaches Temporal, the world and Redis through proxies only."""

    temporal: Server
    world_server: Server
    worker: Server
    to_temporal: TcpProxy
    to_world: TcpProxy
    to_redis: TcpProxy
    client: Client
    world: WorldUnderTest
    task_queue: str

    async def start(self, *started: Server) -> None:
        """Start servers, and wait until they answer."""
        for server in started:
            await server.start(group=_OWN_GROUP)
        for server in started:
            await server.wait_healthy()

    async def kill(self, *killed: Server) -> None:
        """Kill servers at once, without a warning."""
        for server in killed:
            _signal(server, signal.SIGKILL)
        for server in killed:
            assert server.process is not None
            assert await server.process.wait() == -signal.SIGKILL

    async def stop_worker(self, seconds: float) -> None:
        """Let the worker stand still for a while."""
        assert self.worker.process is not None
        _signal(self.worker, signal.SIGSTOP)
        stopped = await asyncio.to_thread(os.waitid, os.P_PID, self.worker.process.pid, os.WSTOPPED | os.WNOWAIT)
        assert stopped is not None
        assert stopped.si_code == os.CLD_STOPPED
        await passed(seconds)
        _signal(self.worker, signal.SIGCONT)


async def passed(seconds: float) -> None:
    """Wait for the clock: of a blow that lasts, how long it lasts is the condition."""
    end = asyncio.get_running_loop().time() + seconds

    async def over() -> bool:
        return asyncio.get_running_loop().time() >= end

    await until(over, deadline=seconds + 30)


def _signal(server: Server, sign: signal.Signals) -> None:
    assert server.process is not None
    os.killpg(server.process.pid, sign)


@asynccontextmanager
async def raised(folder: Path) -> AsyncGenerator[Stage]:
    """Servers in a folder of their own, with a janitor that sweeps every second."""
    settings = Settings(state_folder=folder, namespace="crash", task_queue="crash")
    (folder / "logs").mkdir(parents=True)
    create_development_key(folder)
    ports = servers.Ports().claimed()
    direct = servers.endpoints_of(settings, ports)
    temporal = servers.temporal(settings, ports, folder)
    world, valkey = servers.world(ports, folder), servers.valkey(ports, folder)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(temporal, world, valkey))
        await servers.prepare(direct)
        client = await Client.connect(
            direct.temporal_host, namespace=direct.namespace, data_converter=pydantic_data_converter
        )
        options = SagaOptions(audit=True)
        await schedule_janitor(client, options, task_queue=direct.task_queue, every=JANITOR_EVERY)
        to_temporal = await stack.enter_async_context(tcp_proxy(ports.temporal))
        to_world = await stack.enter_async_context(tcp_proxy(ports.world))
        to_redis = await stack.enter_async_context(tcp_proxy(ports.redis))
        proxied = Endpoints.model_validate(
            {
                **direct.model_dump(),
                "temporal_host": f"127.0.0.1:{to_temporal.port}",
                "world_url": f"http://127.0.0.1:{to_world.port}",
                "redis_url": f"redis://127.0.0.1:{to_redis.port}/0",
            }
        )
        worker = servers.worker(settings, proxied, folder)
        stack.push_async_callback(worker.stop)
        stage = Stage(
            temporal=temporal,
            world_server=world,
            worker=worker,
            to_temporal=to_temporal,
            to_world=to_world,
            to_redis=to_redis,
            client=client,
            world=WorldUnderTest(direct.world_url),
            task_queue=direct.task_queue,
        )
        await stage.start(worker)
        yield stage
