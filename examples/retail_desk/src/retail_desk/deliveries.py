"""What can be asked about an order that was delivered: a return, or an exchange; each once."""

from countermand.saga import ToolCall, ToolRefused
from countermand.saga.types import Frozen
from countermand.tools.tool import tool
from retail_desk.desk import Desk
from retail_desk.journal import found_by_key, restore_rows, write_once
from retail_desk.lines import price_difference, replaced, require, require_items
from retail_desk.models import ItemIds, Order, OrderId

find_order = found_by_key(Order)


class ReturnDeliveredOrderItems(Frozen):
    """Send items back; the refund goes to the method that the order was paid by, or to a gift card."""

    order_id: OrderId
    item_ids: ItemIds
    payment_method_id: str


class ExchangeDeliveredOrderItems(Frozen):
    """Send items back for other variants of them; ``new_item_ids`` follow the order of ``item_ids``."""

    order_id: OrderId
    item_ids: ItemIds
    new_item_ids: ItemIds
    payment_method_id: str


@tool(effect="compensable", compensate=restore_rows, probe=find_order)
async def return_delivered_order_items(call: ToolCall, args: ReturnDeliveredOrderItems) -> Order:
    """Ask for the return of items of a delivered order."""

    def ask_for_return(desk: Desk) -> Order:
        order = _delivered(desk, args.order_id)
        method = desk.payment_method(order.user_id, args.payment_method_id)
        paid_by = order.payment_history[0].payment_method_id
        require(
            method.source == "gift_card" or method.payment_method_id == paid_by,
            f"the refund goes to {paid_by}, by which the order was paid, or to a gift card",
        )
        require_items(order, args.item_ids)
        changes = {
            "status": "return requested",
            "return_items": tuple(sorted(args.item_ids)),
            "return_payment_method_id": args.payment_method_id,
        }
        return desk.save(order.model_copy(update=changes))

    return await write_once(call, args, Order, ask_for_return)


@tool(effect="compensable", compensate=restore_rows, probe=find_order)
async def exchange_delivered_order_items(call: ToolCall, args: ExchangeDeliveredOrderItems) -> Order:
    """Ask for the exchange of items of a delivered order; the difference is settled when they come back."""

    def ask_for_exchange(desk: Desk) -> Order:
        order = _delivered(desk, args.order_id)
        new = replaced(desk, order, args.item_ids, args.new_item_ids)
        difference = price_difference(order.items, new)
        method = desk.payment_method(order.user_id, args.payment_method_id)
        if method.balance is not None and method.balance < difference:
            raise ToolRefused(f"gift card {method.payment_method_id} does not hold the difference in price")
        changes = {
            "status": "exchange requested",
            "exchange_items": tuple(sorted(args.item_ids)),
            "exchange_new_items": tuple(sorted(args.new_item_ids)),
            "exchange_payment_method_id": args.payment_method_id,
            "exchange_price_difference": difference,
        }
        return desk.save(order.model_copy(update=changes))

    return await write_once(call, args, Order, ask_for_exchange)


def _delivered(desk: Desk, order_id: str) -> Order:
    order = desk.order(order_id)
    require(order.status == "delivered", f"order {order_id} is {order.status}: it is not delivered")
    return order
