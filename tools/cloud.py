"""Cloud: clusters and the load balancers in front of them."""

from pydantic import Field

from countermand.saga.types import Frozen
from countermand.tools.fields import Identifier


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
