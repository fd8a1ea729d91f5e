"""Clusters and load balancers on the wire."""

from typing import Literal

from pydantic import Field

from countermand.tools.world.models.common import Frozen, PlanName, Quantity, Reference, Region


class CreateCluster(Frozen):
    """Ask for a cluster; ``quantity`` is its number of environments."""

    plan: PlanName
    region: Region
    quantity: Quantity = 1
    reference: Reference = ""


class CreateLoadBalancer(Frozen):
    """Ask for a load balancer before a cluster."""

    cluster_id: str
    reference: Reference = ""


class Cluster(Frozen):
    """A cluster; it is usable when ``ready``."""

    id: str
    status: Literal["provisioning", "ready", "terminating", "terminated"]
    plan: PlanName
    region: Region
    quantity: int
    reference: str
    key: str
    created_at: float = Field(description="Seconds since the epoch.")


class LoadBalancer(Frozen):
    """A load balancer; ``address`` is its IPv4 address from the start."""

    id: str
    status: Literal["provisioning", "ready", "deleting", "deleted"]
    cluster_id: str
    address: str
    reference: str
    key: str
    created_at: float = Field(description="Seconds since the epoch.")


class CloudState(Frozen):
    """All of the provider's tables."""

    clusters: list[Cluster]
    load_balancers: list[LoadBalancer]
