"""Cloud: clusters and the load balancers in front of them."""

import asyncio
from datetime import timedelta

from pydantic import Field

from countermand.saga.errors import ToolUnavailable
from countermand.saga.types import Frozen, ListedEffect, Probed, ToolCall, Undone
from countermand.tools import client
from countermand.tools.fields import Identifier
from countermand.tools.inventory import find_quote
from countermand.tools.tool import tool
from countermand.tools.world.models import cloud as wire
from countermand.tools.world.models.common import Page
from countermand.tools.world.models.common import Undone as WireUndone

_STANDS = {"provisioning", "ready"}

LOOK_EVERY = timedelta(seconds=0.2)
"""How often a cluster that is being provisioned is looked at."""


class ProvisionCluster(Frozen):
    """Make the quote's cluster."""

    quote_id: Identifier = Field(description="The quote's id; its plan, region and quantity are provisioned.")


class Cluster(Frozen):
    """A cluster; ``ready`` before the tool returns."""

    cluster_id: Identifier
    region: str
    status: str


class CreateLoadBalancer(Frozen):
    """Put a load balancer in front of a cluster."""

    cluster_id: Identifier = Field(description="The cluster's id, as provision_cluster answered it.")


class LoadBalancer(Frozen):
    """A load balancer and where it answers."""

    load_balancer_id: Identifier
    cluster_id: Identifier
    address: str


async def terminate_cluster(call: ToolCall, _args: ProvisionCluster, _result: Cluster | None) -> Undone:
    """Terminate the cluster."""
    return client.undone(await client.undo("cloud.terminate_cluster", call, WireUndone[wire.Cluster]))


async def _find_cluster(call: ToolCall, _args: ProvisionCluster) -> Probed[Cluster]:
    probed = await client.probe("cloud.create_cluster", call, wire.Cluster, _cluster)
    if probed.result is None:
        return probed
    return Probed(probed.answer, await _when_ready(probed.result))


async def _list_clusters() -> list[ListedEffect]:
    return [
        ListedEffect(key=made.key, kind="cluster", id=made.id, args={"quote_id": made.reference})
        for made in await client.read_all("cloud.list_clusters", Page[wire.Cluster])
        if made.status in _STANDS
    ]


@tool(
    effect="compensable",
    compensate=terminate_cluster,
    probe=_find_cluster,
    start_to_close=timedelta(minutes=2),
    list_effects=_list_clusters,
)
async def provision_cluster(call: ToolCall, args: ProvisionCluster) -> Cluster:
    """Provision the cluster of a quote; answers when it is ready."""
    quote = await find_quote(args.quote_id)
    wanted = wire.CreateCluster(
        plan=quote.order.plan,
        region=quote.order.region,
        quantity=quote.order.quantity,
        reference=quote.quote_id,
    )
    return await _when_ready(_cluster(await client.act("cloud.create_cluster", wire.Cluster, wanted, key=call.key)))


async def delete_load_balancer(call: ToolCall, _args: CreateLoadBalancer, _result: LoadBalancer | None) -> Undone:
    """Delete the load balancer."""
    return client.undone(await client.undo("cloud.delete_load_balancer", call, WireUndone[wire.LoadBalancer]))


async def _find_load_balancer(call: ToolCall, _args: CreateLoadBalancer) -> Probed[LoadBalancer]:
    return await client.probe("cloud.create_load_balancer", call, wire.LoadBalancer, _load_balancer)


async def _list_load_balancers() -> list[ListedEffect]:
    return [
        ListedEffect(key=made.key, kind="load_balancer", id=made.id, args={"cluster_id": made.cluster_id})
        for made in await client.read_all("cloud.list_load_balancers", Page[wire.LoadBalancer])
        if made.status in _STANDS
    ]


@tool(
    effect="compensable",
    compensate=delete_load_balancer,
    probe=_find_load_balancer,
    parallel=True,
    list_effects=_list_load_balancers,
)
async def create_load_balancer(call: ToolCall, args: CreateLoadBalancer) -> LoadBalancer:
    """Put one load balancer in front of a cluster; call it once for each that was ordered."""
    wanted = wire.CreateLoadBalancer(cluster_id=args.cluster_id)
    return _load_balancer(await client.act("cloud.create_load_balancer", wire.LoadBalancer, wanted, key=call.key))


async def find_load_balancer(load_balancer_id: str) -> LoadBalancer:
    """The load balancer with this id."""
    return _load_balancer(await client.read("cloud.get_load_balancer", wire.LoadBalancer, id=load_balancer_id))


async def _when_ready(made: Cluster) -> Cluster:
    """The cluster as soon as it is ready; the call's time-out bounds the wait."""
    while made.status == "provisioning":
        await asyncio.sleep(LOOK_EVERY.total_seconds())
        try:
            made = _cluster(await client.read("cloud.get_cluster", wire.Cluster, id=made.cluster_id))
        except client.Refused as refused:
            # It was made: that its state can't be read refuses nothing.
            raise ToolUnavailable(f"cluster {made.cluster_id} can't be looked at: {refused}") from refused
    if made.status != "ready":
        raise ToolUnavailable(f"cluster {made.cluster_id} is {made.status}")
    return made


def _cluster(made: wire.Cluster) -> Cluster:
    return Cluster(cluster_id=made.id, region=made.region, status=made.status)


def _load_balancer(made: wire.LoadBalancer) -> LoadBalancer:
    return LoadBalancer(load_balancer_id=made.id, cluster_id=made.cluster_id, address=made.address)
