"""The order as a fixed plan, for tests of sagas: the stub's own steps, without a model."""

from countermand.saga import PlannedStep
from countermand.saga.types import JsonObject
from countermand.testing.env import SagaEnv

ORDER: JsonObject = {
    "plan": "medium",
    "region": "eu-west",
    "email": "ada@example.com",
    "hostname": "ada.example.dev",
    "load_balancers": 2,
}
QUOTE, RESERVE, AUTHORIZE, CLUSTER, BALANCER, BALANCER_2, ROUTE, CAPTURE, MAIL = range(1, 10)
EFFECTS = ["reservation", "payment", "cluster", "load_balancer", "load_balancer", "route", "message"]

ORDER_PLAN: tuple[PlannedStep | tuple[PlannedStep, ...], ...] = (
    PlannedStep(tool="quote_order", args=ORDER),
    PlannedStep(tool="reserve_stock", results={"quote_id": (QUOTE, "quote_id")}),
    PlannedStep(tool="authorize_payment", results={"quote_id": (QUOTE, "quote_id")}),
    PlannedStep(tool="provision_cluster", results={"quote_id": (QUOTE, "quote_id")}),
    (
        PlannedStep(tool="create_load_balancer", results={"cluster_id": (CLUSTER, "cluster_id")}),
        PlannedStep(tool="create_load_balancer", results={"cluster_id": (CLUSTER, "cluster_id")}),
    ),
    PlannedStep(
        tool="register_domain_route",
        args={"hostname": "ada.example.dev"},
        results={"load_balancer_ids": [(BALANCER, "load_balancer_id"), (BALANCER_2, "load_balancer_id")]},
    ),
    PlannedStep(tool="capture_payment", results={"payment_id": (AUTHORIZE, "payment_id")}),
    PlannedStep(tool="send_confirmation", results={"quote_id": (QUOTE, "quote_id")}),
)


async def standing_kinds(env: SagaEnv) -> list[str]:
    """The kinds of effect that stand in the world now."""
    return sorted(effect.kind for effect in await env.world.standing())
