"""The one way to Redis: every operation has a budget, and a Redis that fails is left alone for a while."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Literal, Self, TypeVar

from pydantic import Field
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from countermand.cache.encoding import Cipher
from countermand.cache.types import Frozen
from countermand.cache.urls import make_client

ResultT = TypeVar("ResultT")

# Not structlog, which unless told otherwise writes to standard output: there a command gives its answer.
log = logging.getLogger(__name__)


class ConnectionOptions(Frozen):
    """How patient a connection is. Times in seconds.

    A hung Redis costs a caller ``budget`` for each of ``failures`` operations, and nothing after that: their product
    stays under 50 ms by default.
    """

    budget: float = Field(default=0.02, gt=0, description="Time for one operation over a standing connection.")
    failures: int = Field(default=2, ge=1, description="Failures in a row that open the circuit.")
    open_for: float = Field(default=1.0, gt=0, description="Time between probes while the circuit is open.")
    connect_timeout: float = Field(default=2.0, gt=0, description="Time for a probe, connecting and TLS included.")
    connections: int = Field(default=8, ge=1, description="Operations under way at once; others wait for their turn.")


class ConnectionStatus(Frozen):
    """Whether Redis is in use now, how often it fell away, and why the last time."""

    circuit: Literal["closed", "open"]
    opened: int
    last_error: str | None


class Unavailable(Exception):
    """Redis did not do it: too slow, away, or it refused. ``circuit_open``: it was not even asked."""

    def __init__(self, message: str, *, circuit_open: bool = False) -> None:
        super().__init__(message)
        self.circuit_open = circuit_open


class Connection:
    """A Redis client behind a circuit breaker. ``async with Connection(url) as connection`` connects and closes.

    Connecting never happens on a caller's time: a probe in the background connects, and closes the circuit.

    Args:
        url: See docs/context-cache.md for the forms.
        options: How patient to be.
        cipher: Encrypts what is written over this connection; None leaves it in clear.

    Raises:
        ValueError: The URL makes no sense.
    """

    def __init__(self, url: str, options: ConnectionOptions | None = None, *, cipher: Cipher | None = None) -> None:
        self.cipher = cipher
        self._options = options or ConnectionOptions()
        self._client = make_client(url, socket_timeout=self._options.connect_timeout)
        self._places = asyncio.Semaphore(self._options.connections)
        self._closed = False
        self._failures = 0
        self._opened = 0
        self._last_error: str | None = None
        self._probe: asyncio.Task[None] | None = None
        self._next_probe = 0.0
        self._ended = False

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def redis(self) -> Redis | RedisCluster:
        """The client, for building commands; await them through ``run`` only."""
        return self._client.redis

    @property
    def status(self) -> ConnectionStatus:
        """How the connection stands."""
        circuit = "closed" if self._closed else "open"
        return ConnectionStatus(circuit=circuit, opened=self._opened, last_error=self._last_error)

    async def open(self) -> bool:
        """Connect now, waiting for the probe; False when Redis is away (it is tried again later)."""
        if not self._closed:
            await asyncio.wait({self._start_probe()})
        return self._closed

    async def aclose(self) -> None:
        """Close all connections; what is read from them at that moment is no failure of Redis."""
        self._ended = True
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait({self._probe})
        with suppress(RedisError, OSError):
            await self._client.close()

    async def run(self, command: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Await one command within the budget.

        Raises:
            Unavailable: It was not done, or not known to be done.
        """
        self._require_closed()
        async with self._places:
            # Whoever waited for a place behind a hanging command need not find out again.
            self._require_closed()
            return await self._timed(command, self._options.budget)

    async def run_blocking(self, command: Callable[[], Awaitable[ResultT]], seconds: float) -> ResultT:
        """Await one command that Redis itself may block for ``seconds``, on a connection beside the others.

        Raises:
            Unavailable: It was not done.
        """
        self._require_closed()
        return await self._timed(command, seconds + self._options.connect_timeout)

    async def script(self, lua: str, key: str, arguments: Sequence[bytes | int]) -> object:
        """Run a Lua script on one key, loading it where the server does not know it.

        Raises:
            Unavailable: It was not done, or not known to be done.
        """
        script = self.redis.register_script(lua)
        return await self.run(lambda: script(keys=[key], args=arguments))

    def _require_closed(self) -> None:
        if self._closed:
            return
        if asyncio.get_running_loop().time() >= self._next_probe:
            self._start_probe()
        raise Unavailable("redis is left alone for now", circuit_open=True)

    async def _timed(self, command: Callable[[], Awaitable[ResultT]], seconds: float) -> ResultT:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                result = await command()
        except ResponseError as error:
            # It answered, so it is there: refusing (no memory, no permission) opens no circuit.
            self._last_error = _describe(error)
            raise Unavailable(self._last_error) from error
        except (RedisError, OSError, TimeoutError) as error:
            if not self._late(limit):
                self._failed(error)
            raise Unavailable(_describe(error)) from error
        self._failures = 0
        return result

    def _late(self, limit: asyncio.Timeout) -> bool:
        """Whether a time-out came long after it was due: this process was busy, and the answer may have been there."""
        due = limit.when()
        now = asyncio.get_running_loop().time()
        return limit.expired() and due is not None and now - due > self._options.budget / 4

    def _failed(self, error: Exception) -> None:
        if self._ended:
            return
        self._last_error = _describe(error)
        self._failures += 1
        # A refused connection will be refused again; slowness may be this process's own.
        refused = isinstance(error, (RedisConnectionError, OSError)) and not isinstance(error, TimeoutError)
        if self._closed and (refused or self._failures >= self._options.failures):
            self._closed = False
            self._opened += 1
            self._next_probe = asyncio.get_running_loop().time() + self._options.open_for
            log.warning("Redis is left alone for %g s: %s", self._options.open_for, self._last_error)

    def _start_probe(self) -> asyncio.Task[None]:
        if self._probe is None or self._probe.done():
            self._probe = asyncio.create_task(self._connect())
        return self._probe

    async def _ping(self) -> None:
        await self.redis.execute_command("PING")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                # As many at once as will be used, so that no operation pays for connecting out of its budget.
                await asyncio.gather(*(self._ping() for _ in range(self._options.connections)))
        except (RedisError, OSError, TimeoutError) as error:
            self._last_error = _describe(error)
            self._next_probe = asyncio.get_running_loop().time() + self._options.open_for
            return
        self._failures = 0
        self._closed = True


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
