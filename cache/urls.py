"""Redis by URL. The forms are documented in docs/context-cache.md."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

_SCHEMES = (
    "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster",
)  # fmt: skip
_DEFAULT_PORTS = {"sentinel": 26379, "cluster": 6379}


@dataclass(frozen=True)
class Client:
    """A redis client and how to close all that belongs to it."""

    redis: Redis | RedisCluster
    close: Callable[[], Awaitable[None]]


def make_client(url: str, *, socket_timeout: float) -> Client:
    """Make the client that a URL asks for; connects to nothing yet.

    Args:
        url: Where Redis is, with user, password and redis-py's own options (``?ssl_ca_certs=…``) if needed.
        socket_timeout: Seconds that a connection attempt or one answer may take.

    Raises:
        ValueError: The URL makes no sense; the message names the part and holds no password.
    """
    try:
        return _make(url, socket_timeout)
    except (TypeError, ValueError) as error:
        raise ValueError(f"redis_url: {str(error).removeprefix('AbstractConnection.__init__() ')}") from error


def _make(url: str, socket_timeout: float) -> Client:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"scheme {parts.scheme!r} is none of {', '.join(_SCHEMES)}")
    scheme, _, topology = parts.scheme.partition("+")
    if topology == "sentinel":
        return _sentinel(scheme, parts, socket_timeout)
    if topology == "cluster":
        return _cluster(scheme, parts, socket_timeout)
    redis = Redis(**_options(url, socket_timeout))
    return Client(redis, redis.aclose)


def _sentinel(scheme: str, parts: SplitResult, socket_timeout: float) -> Client:
    service, _, db = parts.path.removeprefix("/").partition("/")
    if not service:
        raise ValueError("a Sentinel URL names its service: redis+sentinel://host:26379/SERVICE[/DB]")
    options = _options(_single(scheme, parts, f"/{db or 0}"), socket_timeout)
    for name in ("host", "port"):
        options.pop(name, None)
    # Sentinels have users of their own, if any: the data nodes' password is not sent to them.
    own = {name: value for name, value in options.items() if name not in {"username", "password", "db"}}
    sentinel = Sentinel(_hosts(parts, "sentinel"), sentinel_kwargs=own)
    redis = sentinel.master_for(unquote(service), **options)

    async def close() -> None:
        await redis.aclose()
        await sentinel.aclose()

    return Client(redis, close)


def _cluster(scheme: str, parts: SplitResult, socket_timeout: float) -> Client:
    if parts.path not in {"", "/", "/0"}:
        raise ValueError(f"a cluster has database 0 only, not {parts.path!r}")
    options = _options(_single(scheme, parts, ""), socket_timeout)
    for name in ("host", "port", "db"):
        options.pop(name, None)
    redis = RedisCluster(startup_nodes=[ClusterNode(host, port) for host, port in _hosts(parts, "cluster")], **options)
    return Client(redis, redis.aclose)


def _options(url: str, socket_timeout: float) -> dict[str, Any]:
    """redis-py's keyword arguments for a URL of one host; untyped there, so untyped here and nowhere else."""
    parsed: dict[str, Any] = dict(parse_url(url))
    connection_class: type[Connection] = parsed.pop("connection_class", Connection)
    # redis-py finds a misspelt option only when it connects, where no user sees it.
    connection_class(**parsed)
    if "path" in parsed:
        parsed["unix_socket_path"] = parsed.pop("path")
    if connection_class is SSLConnection:
        parsed["ssl"] = True
    return {
        # RESP2 and no client info: nothing to negotiate, so that a new connection costs no round trip.
        "protocol": 2,
        "driver_info": None,
        # The circuit breaker decides about trying again.
        "retry": Retry(NoBackoff(), 0),
        "socket_timeout": socket_timeout,
        "socket_connect_timeout": socket_timeout,
    } | parsed


def _single(scheme: str, parts: SplitResult, path: str) -> str:
    userinfo, at, hosts = parts.netloc.rpartition("@")
    return urlunsplit((scheme, f"{userinfo}{at}{hosts.partition(',')[0]}", path, parts.query, ""))


def _hosts(parts: SplitResult, topology: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for text in parts.netloc.rpartition("@")[2].split(","):
        host = urlsplit(f"//{text}")
        if not host.hostname:
            raise ValueError("a host is empty: separate hosts by one comma, host:port,host:port")
        found.append((host.hostname, host.port or _DEFAULT_PORTS[topology]))
    return found
