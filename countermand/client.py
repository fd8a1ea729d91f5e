"""Connecting to Temporal."""

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError

from countermand.embedded.endpoints import Endpoints
from countermand.plugin import CountermandPlugin
from countermand.saga.errors import CountermandError


class Unreachable(CountermandError):
    """Temporal does not answer; the message says where it was looked for."""


async def connect(endpoints: Endpoints, plugin: CountermandPlugin | None = None) -> Client:
    """A client with ``CountermandPlugin``; TLS and API key come from the standard ``TEMPORAL_*`` settings.

    Args:
        endpoints: Where Temporal is.
        plugin: The plugin of a worker, which serves a cache and a feed; a plain one if None.

    Raises:
        Unreachable: Nothing answers at the address.
    """
    profile = ClientConfig.load_client_connect_config()
    try:
        return await Client.connect(
            endpoints.temporal_host,
            namespace=endpoints.namespace,
            plugins=[plugin or CountermandPlugin()],
            tls=profile.get("tls", False),
            api_key=profile.get("api_key"),
            rpc_metadata=profile.get("rpc_metadata", {}),
        )
    except (RuntimeError, RPCError) as error:
        raise Unreachable(
            f"Temporal does not answer at {endpoints.temporal_host}: start it, or set COUNTERMAND_TEMPORAL_HOST"
        ) from error
