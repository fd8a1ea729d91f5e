"""Connecting to Temporal."""

import asyncio

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from countermand.embedded.endpoints import Endpoints
from countermand.encryption import load_cipher
from countermand.plugin import CountermandPlugin
from countermand.saga.errors import CountermandError
from countermand.settings import Settings

_CONNECT_DEADLINE = 5.0
_RETRY_AFTER = 0.1


class Unreachable(CountermandError):
    """Temporal does not answer, or not to us; the message says where it was looked for."""


async def connect(endpoints: Endpoints, plugin: CountermandPlugin | None = None, *, patience: float = 0.0) -> Client:
    """A client with ``CountermandPlugin``.

    TLS and API key of a server that is not embedded come from the standard ``TEMPORAL_*`` settings: variables, or a
    profile of the TOML file.

    Args:
        endpoints: Where Temporal is.
        plugin: The plugin of a worker, which serves a cache and a feed; if None, one that only reads what is encrypted.
        patience: Seconds to go on trying, for who may start before its server.

    Raises:
        Unreachable: Nothing answers at the address, the key is refused, or the namespace does not exist.
    """
    try:
        profile: ClientConnectConfig = {} if endpoints.embedded else ClientConfig.load_client_connect_config()
    except (ValueError, RuntimeError, OSError) as error:
        raise Unreachable(f"Temporal's standard settings (TEMPORAL_*) can't be used: {error}") from error
    plugin = plugin or CountermandPlugin(cipher=load_cipher(Settings().state_folder))
    until = asyncio.get_running_loop().time() + patience
    while True:
        try:
            return await _connect(endpoints, plugin, profile)
        except Unreachable:
            if asyncio.get_running_loop().time() >= until:
                raise
        await asyncio.sleep(_RETRY_AFTER)


async def _connect(endpoints: Endpoints, plugin: CountermandPlugin, profile: ClientConnectConfig) -> Client:
    host, namespace = endpoints.temporal_host, endpoints.namespace
    try:
        async with asyncio.timeout(_CONNECT_DEADLINE):
            client = await Client.connect(
                host,
                namespace=namespace,
                plugins=[plugin],
                tls=profile.get("tls", False),
                api_key=profile.get("api_key"),
                rpc_metadata=profile.get("rpc_metadata", {}),
            )
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise Unreachable(
                f"Temporal at {host} has no namespace {namespace}: create it, or set COUNTERMAND_NAMESPACE"
            ) from error
        raise Unreachable(f"Temporal at {host} refuses: {error.message}") from error
    except (RuntimeError, TimeoutError) as error:
        raise Unreachable(f"Temporal does not answer at {host}: start it, or set COUNTERMAND_TEMPORAL_HOST") from error
    return client
