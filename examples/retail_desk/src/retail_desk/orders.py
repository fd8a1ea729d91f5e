"""What can be changed about an order that was not sent yet."""

from typing import Literal

from countermand.saga import ToolCall, ToolRefused
from countermand.saga.types import Frozen
from countermand.tools.tool import tool
from retail_desk.desk import Desk
from retail_desk.journal import found_by_key, restore_rows, write_once
from retail_desk.lines import price_difference, replaced, require
from retail_desk.models import Address, ItemIds, Order, OrderId

ITEMS_MODIFIED = "pending (item modified)"
"""Still pending, but its items can't be changed again, nor can it be cancelled."""

find_order = found_by_key(Order)


class CancelPendingOrder(Frozen):
    """Cancel a whole order."""

    order_id: OrderId
    reason: Literal["no longer needed", "ordered by mistake"]


class ModifyPendingOrderAddress(Address):
    """Send an order elsewhere. Give the whole new address."""

    order_id: OrderId


class ModifyPendingOrderPayment(Frozen):
    """Pay an order by another method of the same customer."""

    order_id: OrderId
    payment_method_id: str


class ModifyPendingOrderItems(Frozen):
    """Take other variants of the same products; ``new_item_ids`` follow the order of ``item_ids``."""

    order_id: OrderId
    item_ids: ItemIds
    new_item_ids: ItemIds
    payment_method_id: str


@tool(effect="compensable", compensate=restore_rows, probe=find_order)
async def cancel_pending_order(call: ToolCall, args: CancelPendingOrder) -> Order:
    """Cancel a pending order: what was paid goes back the way that it came, at once to a gift card."""

    def cancel(desk: Desk) -> Order:
        order = desk.order(args.order_id)
        require(order.status == "pending", f"order {order.order_id} is {order.status}: it can't be cancelled")
        refunds = [desk.pay(order.user_id, paid.payment_method_id, -paid.amount) for paid in order.payment_history]
        changes = {
            "status": "cancelled",
            "cancel_reason": args.reason,
            "payment_history": (*order.payment_history, *refunds),
        }
        return desk.save(order.model_copy(update=changes))

    return await write_once(call, args, Order, cancel)


@tool(effect="compensable", compensate=restore_rows, probe=find_order)
async def modify_pending_order_address(call: ToolCall, args: ModifyPendingOrderAddress) -> Order:
    """Change where a pending order is sent to."""

    def send_elsewhere(desk: Desk) -> Order:
        order = _pending(desk, args.order_id)
        address = Address.model_validate(args.model_dump(exclude={"order_id"}))
        return desk.save(order.model_copy(update={"address": address}))

    return await write_once(call, args, Order, send_elsewhere)


@tool(effect="compensable", compensate=restore_rows, probe=find_order)
async def modify_pending_order_payment(call: ToolCall, args: ModifyPendingOrderPayment) -> Order:
    """Pay a pending order by another method: the new one is charged, the first one gets its money back."""

    def pay_otherwise(desk: Desk) -> Order:
        order = _pending(desk, args.order_id)
        if len(order.payment_history) != 1 or order.payment_history[0].transaction_type != "payment":
            raise ToolRefused(f"order {order.order_id} was not paid in one payment: its payment can't be changed")
        paid = order.payment_history[0]
        require(paid.payment_method_id != args.payment_method_id, "the order is paid by that method already")
        charged = desk.pay(order.user_id, args.payment_method_id, paid.amount)
        refunded = desk.pay(order.user_id, paid.payment_method_id, -paid.amount)
        return desk.save(order.model_copy(update={"payment_history": (paid, charged, refunded)}))

    return await write_once(call, args, Order, pay_otherwise)


@tool(effect="compensable", compensate=restore_rows, probe=find_order)
async def modify_pending_order_items(call: ToolCall, args: ModifyPendingOrderItems) -> Order:
    """Change items of a pending order, once; the difference in price is charged or given back."""

    def change_items(desk: Desk) -> Order:
        order = desk.order(args.order_id)
        require(order.status == "pending", f"order {order.order_id} is {order.status}: its items can't be changed")
        require(
            all(old != new for old, new in zip(args.item_ids, args.new_item_ids, strict=False)),
            "an item must be changed for another one",
        )
        items = replaced(desk, order, args.item_ids, args.new_item_ids)
        settled = desk.pay(order.user_id, args.payment_method_id, price_difference(order.items, items))
        changes = {
            "status": ITEMS_MODIFIED,
            "items": items,
            "payment_history": (*order.payment_history, settled),
        }
        return desk.save(order.model_copy(update=changes))

    return await write_once(call, args, Order, change_items)


def _pending(desk: Desk, order_id: str) -> Order:
    order = desk.order(order_id)
    require(order.status in {"pending", ITEMS_MODIFIED}, f"order {order_id} is {order.status}: it is not pending")
    return order
