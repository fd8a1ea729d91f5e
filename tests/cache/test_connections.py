"""Every URL form against a server that wants it: TLS and ACL, Sentinel, Cluster, a socket."""

import asyncio
import subprocess
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis

from countermand.cache.connection import Connection
from countermand.cache.context import ContextCache
from countermand.cache.feed import Feed
from countermand.cache.types import CacheCounters, FeedEvent

from .certificates import write_certificate
from .conftest import PATIENT
from .contexts import context
from .servers import HOST, RedisServer, debian_program, free_port, valkey_program

ACL = (
    "on >pass:w@rd resetkeys ~cm:* -@all +evalsha +script|load +ping +strlen +get +getrange +set +pexpire +unlink "
    "+xadd +xread"
)
"""What docs/context-cache.md tells operators to allow."""


async def everything_works(connection: Connection, session: str = "s1") -> None:
    base = context(session=session)
    assert connection.status.last_error is None
    assert await ContextCache(connection).put(base.ref, base)
    reader = ContextCache(connection)
    assert await reader.get(base.ref) == base
    assert reader.counters() == CacheCounters(hits_redis=1)
    feed = Feed(connection)
    id_ = await feed.append(session, "step", {"n": 1})
    event = FeedEvent(id=id_ or "", kind="step", data={"n": 1})
    assert await feed.read(session) == (event,)
    tail = feed.tail(session)
    assert await anext(tail) == event
    await tail.aclose()


@pytest.fixture
def redis(tmp_path: Path) -> Generator[RedisServer]:
    with RedisServer(debian_program("redis-server"), tmp_path) as server:
        yield server


async def test_debians_redis_works(redis: RedisServer) -> None:
    async with Connection(redis.url, PATIENT) as connection:
        await everything_works(connection)


async def test_a_unix_socket_works(tmp_path: Path) -> None:
    socket = tmp_path / "redis.sock"
    with RedisServer(valkey_program(), tmp_path, ["--unixsocket", str(socket)]):
        async with Connection(f"unix://{socket}", PATIENT) as connection:
            await everything_works(connection)


@pytest.fixture
def secured(tmp_path: Path) -> Generator[tuple[RedisServer, Path]]:
    certificate, key = write_certificate(tmp_path)
    port = free_port()
    options = [
        *("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate)),
        *("--user", "default", "off", "--user", "worker", *ACL.split()),
    ]
    with RedisServer(debian_program("redis-server"), tmp_path, options, port=port) as server:
        yield server, certificate


async def test_tls_with_a_user_who_may_do_only_what_the_cache_does(secured: tuple[RedisServer, Path]) -> None:
    server, certificate = secured
    url = f"rediss://worker:pass%3Aw%40rd@{HOST}:{server.port}/0?ssl_ca_certs={certificate}"
    async with Connection(url, PATIENT) as connection:
        await everything_works(connection)
        with pytest.raises(Exception, match="no permissions"):
            await connection.redis.flushall()


async def test_a_wrong_password_is_a_miss_and_shows_in_the_status(secured: tuple[RedisServer, Path]) -> None:
    server, certificate = secured
    url = f"rediss://worker:wrong@{HOST}:{server.port}/0?ssl_ca_certs={certificate}"
    async with Connection(url, PATIENT) as connection:
        assert await ContextCache(connection).get(context().ref) is None
        assert connection.status.circuit == "open"
        assert connection.status.last_error == (
            "AuthenticationError: invalid username-password pair or user is disabled."
        )


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(secured: tuple[RedisServer, Path]) -> None:
    server, _ = secured
    async with Connection(f"rediss://worker:pass%3Aw%40rd@{HOST}:{server.port}", PATIENT) as connection:
        assert connection.status.circuit == "open"
        assert "certificate verify failed" in (connection.status.last_error or "")


async def test_sentinel_leads_to_the_master(redis: RedisServer, tmp_path: Path) -> None:
    config = tmp_path / "sentinel.conf"
    config.write_text(f"sentinel monitor orders {HOST} {redis.port} 1\n")
    options = ["--sentinel"]
    with RedisServer(debian_program("redis-server"), tmp_path, options, config=config) as sentinel:
        hosts = f"{HOST}:{free_port()},{HOST}:{sentinel.port}"
        async with Connection(f"redis+sentinel://{hosts}/orders/3", PATIENT) as connection:
            await everything_works(connection)
    async with Redis(port=redis.port, db=3) as third:
        assert await third.exists("cm:{default/s1}:ctx:1") == 1


async def state_of(node: Redis) -> str:
    info: dict[str, str] = cast("dict[str, str]", await node.execute_command("CLUSTER INFO"))
    return info["cluster_state"]


@pytest.fixture
def cluster(tmp_path: Path) -> Generator[list[RedisServer]]:
    with ExitStack() as stack:
        nodes: list[RedisServer] = []
        for number in range(3):
            folder = tmp_path / str(number)
            folder.mkdir()
            options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
            nodes.append(stack.enter_context(RedisServer(debian_program("redis-server"), folder, options)))
        addresses = [f"{HOST}:{node.port}" for node in nodes]
        create = [debian_program("redis-cli"), "--cluster", "create", *addresses, "--cluster-yes"]
        created = subprocess.run(create, capture_output=True, text=True, check=False)
        assert created.returncode == 0, created.stdout
        yield nodes


async def test_a_cluster_of_three_keeps_each_session_on_one_node(cluster: list[RedisServer]) -> None:
    url = "redis+cluster://" + ",".join(f"{HOST}:{node.port}" for node in cluster)
    async with asyncio.timeout(20):  # nodes learn of each other one after the other
        for node in cluster:
            async with Redis(port=node.port) as client:
                while await state_of(client) != "ok":
                    pass
    async with Connection(url, PATIENT) as connection:
        for number in range(12):
            await everything_works(connection, f"s{number}")
    held: list[int] = []
    for node in cluster:
        async with Redis(port=node.port) as client:
            held.append(await client.dbsize())
    assert sum(held) == 24
    assert all(count > 0 and count % 2 == 0 for count in held)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://localhost", r"^redis_url: scheme 'http' is none of redis, rediss, "),
        ("localhost:6379", r"^redis_url: scheme 'localhost' is none of "),
        ("redis+sentinel://localhost:26379", r"^redis_url: a Sentinel URL names its service: "),
        ("redis+cluster://localhost/3", r"^redis_url: a cluster has database 0 only, not '/3'$"),
        ("redis+cluster://a:1,,b:2", r"^redis_url: a host is empty: "),
        ("redis://localhost:port", r"^redis_url: Port could not be cast"),
        ("redis+cluster://localhost:1,localhost:port", r"^redis_url: Port could not be cast"),
        ("redis://[::1", r"^redis_url: Invalid IPv6 URL"),
        ("redis://localhost?sockettimeout=3", r"^redis_url: .*unexpected keyword argument 'sockettimeout'$"),
        ("redis://localhost?socket_timeout=soon", r"^redis_url: Invalid value for 'socket_timeout'"),
    ],
)
def test_a_url_that_makes_no_sense_is_told_in_one_line(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Connection(url)


@pytest.mark.parametrize("url", ["http://u:secret@h", "redis+sentinel://u:secret@h", "redis+cluster://u:secret@h:x"])
def test_no_password_is_in_the_message(url: str) -> None:
    with pytest.raises(ValueError, match="redis_url") as caught:
        Connection(url)
    assert "secret" not in str(caught.value)
