"""What the world sells, and at what price. Amounts are minor units; nobody else may name one."""

import hashlib
from typing import get_args

from countermand.tools.world.models.common import Money, PlanName, Region
from countermand.tools.world.models.inventory import LineItem, Quote, QuoteRequest

CURRENCY = "usd"
REGIONS: tuple[Region, ...] = get_args(Region)
PRICES: dict[PlanName, int] = {"small": 4900, "medium": 14900, "large": 49900}
STOCK: dict[PlanName, int] = {"small": 50_000, "medium": 50_000, "large": 10_000}
LOAD_BALANCER_PRICE = 1800


def sku(plan: PlanName) -> str:
    """The stock keeping unit of a plan."""
    return f"env-{plan}"


def price(order: QuoteRequest) -> Quote:
    """Price an order."""
    lines = [_line(sku(order.plan), f"{order.plan} environment, a month", order.quantity, PRICES[order.plan])]
    if order.load_balancers:
        lines.append(_line("load-balancer", "load balancer, a month", order.load_balancers, LOAD_BALANCER_PRICE))
    total = Money(amount=sum(line.amount for line in lines), currency=CURRENCY)
    content = order.model_dump_json() + total.model_dump_json()
    return Quote(
        **order.model_dump(),
        id=f"quo_{hashlib.sha256(content.encode()).hexdigest()[:20]}",
        line_items=lines,
        total=total,
    )


def _line(item: str, description: str, quantity: int, unit_amount: int) -> LineItem:
    return LineItem(
        sku=item,
        description=description,
        quantity=quantity,
        unit_amount=unit_amount,
        amount=quantity * unit_amount,
    )
