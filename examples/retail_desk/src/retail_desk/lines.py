"""The lines of an order: which are meant, and what others would cost."""

from collections import Counter
from collections.abc import Sequence

from countermand.saga import ToolRefused
from retail_desk.desk import Desk
from retail_desk.models import Line, Order


def require(condition: bool, otherwise: str) -> None:
    """Refuse the call unless the condition holds."""
    if not condition:
        raise ToolRefused(otherwise)


def require_items(order: Order, item_ids: Sequence[str]) -> None:
    """Refuse the call unless the order has the items, each as often as it is named."""
    missing = Counter(item_ids) - Counter(line.item_id for line in order.items)
    require(not missing, f"order {order.order_id} has no {', '.join(missing)}, or not as often")


def replaced(desk: Desk, order: Order, item_ids: Sequence[str], new_item_ids: Sequence[str]) -> tuple[Line, ...]:
    """An order's lines with other variants of the same products in the place of some, each at its own price.

    Raises:
        ToolRefused: An item is not there (often enough), or the new one can't take its place.
    """
    require(len(item_ids) == len(new_item_ids), "there must be as many new items as old ones")
    require_items(order, item_ids)
    lines = list(order.items)
    open_places = list(range(len(lines)))
    for old, new in zip(item_ids, new_item_ids, strict=True):
        place = next(place for place in open_places if lines[place].item_id == old)
        open_places.remove(place)
        variant = desk.variant(new)
        require(variant.product_id == lines[place].product_id, f"{new} is no {lines[place].name}")
        require(variant.available, f"{new} is not available")
        lines[place] = lines[place].model_copy(
            update={"item_id": new, "price": variant.price, "options": variant.options}
        )
    return tuple(lines)


def price_difference(old: Sequence[Line], new: Sequence[Line]) -> int:
    """What the new lines cost more than the old ones, in cents; negative if less."""
    return sum(line.price for line in new) - sum(line.price for line in old)
