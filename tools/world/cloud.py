"""Cloud: clusters and the load balancers before them, with a lifecycle that takes its time."""

import hashlib

from sqlalchemy import func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from countermand.tools.world.database import ThingRow
from countermand.tools.world.errors import Refusal
from countermand.tools.world.idempotency import probe
from countermand.tools.world.ledger import Standing
from countermand.tools.world.models.cloud import (
    CloudState,
    Cluster,
    CreateCluster,
    CreateLoadBalancer,
    LoadBalancer,
)
from countermand.tools.world.models.common import ById, Page, Paging, PlanName, Probe, Region, Undo, Undone
from countermand.tools.world.operations import Call, Provider, by_id, effect, page, read, thing_id, to_undo

_STANDS = ("provisioning", "ready")
_BECOMES = {"provisioning": "ready", "terminating": "terminated", "deleting": "deleted"}


class LifecycleRow(ThingRow, kw_only=True):
    """Something that is on its way to a status: it gets there at ``settles_at``."""

    __abstract__ = True

    status: Mapped[str] = mapped_column(index=True)
    settles_at: Mapped[float]


class ClusterRow(LifecycleRow, kw_only=True):
    """A cluster."""

    __tablename__ = "clusters"

    plan: Mapped[PlanName]
    region: Mapped[Region]
    quantity: Mapped[int]
    reference: Mapped[str]


class LoadBalancerRow(LifecycleRow, kw_only=True):
    """A load balancer."""

    __tablename__ = "load_balancers"

    cluster_id: Mapped[str] = mapped_column(index=True)
    address: Mapped[str]
    reference: Mapped[str]


def create_cluster(call: Call, body: CreateCluster) -> Cluster:
    """Begin to provision a cluster, within the region's quota."""
    standing_here = select(func.count()).where(ClusterRow.region == body.region, ClusterRow.status.in_(_STANDS))
    if (call.session.scalar(standing_here) or 0) >= call.settings.cluster_quota:
        raise Refusal(
            409,
            "quota_exceeded",
            f"region: {body.region} already holds its quota of {call.settings.cluster_quota} clusters.",
        )
    row = ClusterRow(
        id=thing_id("clu", call),
        key=call.key,
        created_at=call.now,
        status="provisioning",
        settles_at=call.now + call.settings.provision_delay_s,
        **body.model_dump(),
    )
    call.session.add(row)
    call.record("do", "cluster", row.id)
    settle(call)
    return Cluster.model_validate(row)


def terminate_cluster(call: Call, body: Undo) -> Undone[Cluster]:
    """Begin to terminate a cluster; its load balancers go first."""
    row = to_undo(call, ClusterRow, "cluster", body)
    if row is None or row.status not in _STANDS:
        return Undone[Cluster](outcome="noop", result=None)
    dependents = select(LoadBalancerRow.id).where(
        LoadBalancerRow.cluster_id == row.id, LoadBalancerRow.status.in_(_STANDS)
    )
    if names := call.session.scalars(dependents).all():
        raise Refusal(409, "has_dependents", f"Delete the load balancers of {row.id} first: {', '.join(names)}.")
    row.status, row.settles_at = "terminating", call.now + call.settings.terminate_delay_s
    call.record("undo", "cluster", row.id)
    settle(call)
    return Undone[Cluster](outcome="done", result=Cluster.model_validate(row))


def create_load_balancer(call: Call, body: CreateLoadBalancer) -> LoadBalancer:
    """Begin to provision a load balancer before a cluster that stands."""
    cluster = by_id(call, ClusterRow, "cluster", body.cluster_id)
    if cluster.status not in _STANDS:
        raise Refusal(409, "cluster_gone", f"cluster_id: {cluster.id} is {cluster.status}.")
    identity = thing_id("lb", call)
    row = LoadBalancerRow(
        id=identity,
        key=call.key,
        created_at=call.now,
        status="provisioning",
        settles_at=call.now + call.settings.provision_delay_s,
        address=_address(identity),
        **body.model_dump(),
    )
    call.session.add(row)
    call.record("do", "load_balancer", row.id)
    settle(call)
    return LoadBalancer.model_validate(row)


def delete_load_balancer(call: Call, body: Undo) -> Undone[LoadBalancer]:
    """Begin to delete a load balancer."""
    row = to_undo(call, LoadBalancerRow, "load balancer", body)
    if row is None or row.status not in _STANDS:
        return Undone[LoadBalancer](outcome="noop", result=None)
    row.status, row.settles_at = "deleting", call.now + call.settings.terminate_delay_s
    call.record("undo", "load_balancer", row.id)
    settle(call)
    return Undone[LoadBalancer](outcome="done", result=LoadBalancer.model_validate(row))


def settle(call: Call) -> None:
    """Let time do its work: what was on its way gets there."""
    for table in (ClusterRow, LoadBalancerRow):
        due = select(table).where(table.status.in_(_BECOMES), table.settles_at <= call.now)
        for row in call.session.scalars(due):
            row.status = _BECOMES[row.status]


def get_cluster(call: Call, body: ById) -> Cluster:
    """One cluster."""
    return Cluster.model_validate(by_id(call, ClusterRow, "cluster", body.id))


def list_clusters(call: Call, body: Paging) -> Page[Cluster]:
    """Clusters, oldest first."""
    return page(call, ClusterRow, "cluster", Cluster, body)


def get_load_balancer(call: Call, body: ById) -> LoadBalancer:
    """One load balancer."""
    return LoadBalancer.model_validate(by_id(call, LoadBalancerRow, "load balancer", body.id))


def list_load_balancers(call: Call, body: Paging) -> Page[LoadBalancer]:
    """Load balancers, oldest first."""
    return page(call, LoadBalancerRow, "load balancer", LoadBalancer, body)


def tables(session: Session) -> CloudState:
    """All of the provider's tables."""
    return CloudState(
        clusters=[Cluster.model_validate(row) for row in session.scalars(select(ClusterRow).order_by(ClusterRow.seq))],
        load_balancers=[
            LoadBalancer.model_validate(row)
            for row in session.scalars(select(LoadBalancerRow).order_by(LoadBalancerRow.seq))
        ],
    )


def standing(session: Session) -> list[Standing]:
    """Clusters and load balancers that nobody asked to remove."""
    kinds = (("cluster", ClusterRow), ("load_balancer", LoadBalancerRow))
    return [
        Standing(provider="cloud", kind=kind, id=row.id, key=row.key)
        for kind, table in kinds
        for row in session.scalars(select(table).where(table.status.in_(_STANDS)).order_by(table.seq))
    ]


def _address(identity: str) -> str:
    """An address from 198.18.0.0/15, which RFC 2544 sets aside for tests."""
    one, two, three = hashlib.sha256(identity.encode()).digest()[:3]
    return f"198.{18 + one % 2}.{two}.{three}"


PROVIDER = Provider(
    name="cloud",
    operations=(
        effect("cloud.create_cluster", CreateCluster, create_cluster),
        effect("cloud.terminate_cluster", Undo, terminate_cluster, undoes=("cloud.create_cluster",)),
        effect("cloud.create_load_balancer", CreateLoadBalancer, create_load_balancer),
        effect("cloud.delete_load_balancer", Undo, delete_load_balancer, undoes=("cloud.create_load_balancer",)),
        read("cloud.get_cluster", ById, get_cluster),
        read("cloud.list_clusters", Paging, list_clusters),
        read("cloud.get_load_balancer", ById, get_load_balancer),
        read("cloud.list_load_balancers", Paging, list_load_balancers),
        read("cloud.probe", Probe, probe),
    ),
    tables=tables,
    standing=standing,
    settle=settle,
)
