"""The steps that place an order, as the stub knows them: what each waits for, and where its arguments come from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from countermand.agents.desk import Args, Desk
from countermand.agents.orders import understand
from countermand.tools.inventory import Quote


@dataclass(frozen=True)
class OrderStep:
    """The tools that must have answered before, and the arguments from what they answered."""

    after: tuple[str, ...]
    args: Callable[[Desk, Quote], Args]


def ready_steps(desk: Desk) -> list[str]:
    """The steps that can be done next, in the order of one who holds them all."""
    done = desk.results
    return [name for name, step in STEPS.items() if name not in done and done.keys() >= set(step.after)]


def stands(desk: Desk) -> bool:
    """Whether a step of an order was done in this turn."""
    return bool(desk.results.keys() & STEPS.keys())


def _quoted(_desk: Desk, quote: Quote) -> Args:
    return {"quote_id": quote.quote_id}


def _charged(desk: Desk, quote: Quote) -> Args:
    card = understand(desk.asked).card
    chosen: Args = {"card_token": card} if card else {}
    return _quoted(desk, quote) | chosen


def _clustered(desk: Desk, _quote: Quote) -> Args:
    return {"cluster_id": desk.results["provision_cluster"][0]["cluster_id"]}


def _routed(desk: Desk, quote: Quote) -> Args:
    ids: list[JsonValue] = [balancer["load_balancer_id"] for balancer in desk.results["create_load_balancer"]]
    return {"hostname": quote.order.hostname, "load_balancer_ids": ids}


def _paid(desk: Desk, _quote: Quote) -> Args:
    return {"payment_id": desk.results["authorize_payment"][0]["payment_id"]}


def _nothing(_desk: Desk, _quote: Quote) -> Args:
    return {}


STEPS: Mapping[str, OrderStep] = {
    "reserve_stock": OrderStep((), _quoted),
    "authorize_payment": OrderStep((), _charged),
    "provision_cluster": OrderStep(("reserve_stock", "authorize_payment"), _quoted),
    "create_load_balancer": OrderStep(("provision_cluster",), _clustered),
    "register_domain_route": OrderStep(("create_load_balancer",), _routed),
    "capture_payment": OrderStep(("register_domain_route",), _paid),
    "send_confirmation": OrderStep(("capture_payment",), _quoted),
    "commit": OrderStep(("send_confirmation",), _nothing),
}
"""By tool, in the order of one who holds them all."""
