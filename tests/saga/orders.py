"""The order as a fixed plan, for tests of sagas: the stub's own steps, without a model."""

from countermand.saga import PlannedStep
from countermand.saga.types import JsonObject
from countermand.testing.env import SagaEnv, Steps

QUOTE, RESERVE, AUTHORIZE, CLUSTER, BALANCER, BALANCER_2, ROUTE, CAPTURE, MAIL = range(1, 10)
EFFECTS = ["reservation", "payment", "cluster", "load_balancer", "load_balancer", "route", "message"]


def order_plan(hostname: str = "ada.example.dev") -> tuple[Steps, ...]:
    """An order of one cluster with two load balancers."""
    order: JsonObject = {
        "plan": "medium",
        "region": "eu-west",
        "email": "ada@example.com",
        "hostname": hostname,
        "load_balancers": 2,
    }
    return (
        PlannedStep(tool="quote_order", args=order),
        PlannedStep(tool="reserve_stock", results={"quote_id": (QUOTE, "quote_id")}),
        PlannedStep(tool="authorize_payment", results={"quote_id": (QUOTE, "quote_id")}),
        PlannedStep(tool="provision_cluster", results={"quote_id": (QUOTE, "quote_id")}),
        (
            PlannedStep(tool="create_load_balancer", results={"cluster_id": (CLUSTER, "cluster_id")}),
            PlannedStep(tool="create_load_balancer", results={"cluster_id": (CLUSTER, "cluster_id")}),
        ),
        PlannedStep(
            tool="register_domain_route",
            args={"hostname": hostname},
            results={"load_balancer_ids": [(BALANCER, "load_balancer_id"), (BALANCER_2, "load_balancer_id")]},
        ),
        PlannedStep(tool="capture_payment", results={"payment_id": (AUTHORIZE, "payment_id")}),
        PlannedStep(tool="send_confirmation", results={"quote_id": (QUOTE, "quote_id")}),
    )


ORDER_PLAN = order_plan()


async def standing_kinds(env: SagaEnv) -> list[str]:
    """The kinds of effect that stand in the world now."""
    return sorted(effect.kind for effect in await env.world.standing())
