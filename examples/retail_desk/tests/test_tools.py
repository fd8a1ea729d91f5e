"""Every tool keeps the contract that a rollback relies on, and the shop's rules; the database judges."""

from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel

from countermand.saga import Tool, ToolCall, ToolRefused
from countermand.saga.types import JsonObject
from countermand.testing.contract import check_tool
from countermand.tools.registry import load_tools
from retail_desk.stock import fill

from .cases import OWN
from .conftest import Shop

TOOLS = {name: tool for name, tool in load_tools("retail_desk.tools").items() if "retail_desk" in tool.args.__module__}

ADDRESS: JsonObject = {
    "address1": "9 Quay",
    "address2": "",
    "city": "Dover",
    "state": "DE",
    "country": "USA",
    "zip": "1",
}

SAMPLES: dict[str, JsonObject] = {
    "find_user_id_by_email": {"email": "ada@example.com"},
    "find_user_id_by_name_zip": {"first_name": "Ada", "last_name": "Byron", "zip": "62701"},
    "get_user_details": {"user_id": "ada_byron_1001"},
    "get_order_details": {"order_id": "#W1000001"},
    "get_product_details": {"product_id": "1000000001"},
    "get_item_details": {"item_id": "2000000001"},
    "list_all_product_types": {},
    "modify_user_address": {"user_id": "ada_byron_1001", **ADDRESS},
    "transfer_to_human_agents": {"summary": "She wants a discount."},
    "cancel_pending_order": {"order_id": "#W1000003", "reason": "no longer needed"},
    "modify_pending_order_address": {"order_id": "#W1000001", **ADDRESS},
    "modify_pending_order_payment": {"order_id": "#W1000004", "payment_method_id": "gift_card_1002"},
    "modify_pending_order_items": {
        "order_id": "#W1000001",
        "item_ids": ["2000000011", "2000000011"],
        "new_item_ids": ["2000000012", "2000000013"],
        "payment_method_id": "gift_card_1001",
    },
    "return_delivered_order_items": {
        "order_id": "#W1000002",
        "item_ids": ["2000000012"],
        "payment_method_id": "gift_card_1001",
    },
    "exchange_delivered_order_items": {
        "order_id": "#W1000005",
        "item_ids": ["2000000022"],
        "new_item_ids": ["2000000021"],
        "payment_method_id": "credit_card_1003",
    },
}
"""A call of every tool."""

REFUSALS: list[tuple[str, JsonObject, str]] = [
    ("get_order_details", {"order_id": "#W9"}, "there is no order #W9"),
    ("find_user_id_by_name_zip", {"zip": "1"}, "there is no Ada Byron at 1"),
    ("modify_user_address", {"user_id": "eve"}, "there is no user eve"),
    ("cancel_pending_order", {"order_id": "#W1000006"}, "order #W1000006 is processed: it can't be cancelled"),
    ("modify_pending_order_address", {"order_id": "#W1000002"}, "order #W1000002 is delivered: it is not pending"),
    ("modify_pending_order_payment", {"payment_method_id": "paypal_1002"}, "paid by that method already"),
    ("modify_pending_order_payment", {"payment_method_id": "gift_card_1001"}, "has no payment method gift_card_1001"),
    ("modify_pending_order_payment", {"order_id": "#W1000001"}, "ada_byron_1001 has no payment method gift_card_1002"),
    ("modify_pending_order_items", {"new_item_ids": ["2000000012"]}, "as many new items as old ones"),
    ("modify_pending_order_items", {"new_item_ids": ["2000000011", "2000000012"]}, "changed for another one"),
    ("modify_pending_order_items", {"new_item_ids": ["2000000012", "2000000001"]}, "2000000001 is no Mug"),
    (
        "modify_pending_order_items",
        {"item_ids": ["2000000002", "2000000002"], "new_item_ids": ["2000000001", "2000000001"]},
        "has no 2000000002, or not as often",
    ),
    (
        "modify_pending_order_items",
        {"item_ids": ["2000000002"], "new_item_ids": ["2000000003"]},
        "2000000003 is not available",
    ),
    ("return_delivered_order_items", {"order_id": "#W1000001"}, "it is not delivered"),
    ("return_delivered_order_items", {"order_id": "#W1000005"}, "has no payment method gift_card_1001"),
    (
        "return_delivered_order_items",
        {"order_id": "#W1000005", "item_ids": ["2000000011"], "payment_method_id": "gift_card_1003"},
        "has no 2000000011",
    ),
    ("exchange_delivered_order_items", {"payment_method_id": "gift_card_1003"}, "does not hold the difference"),
    ("exchange_delivered_order_items", {"new_item_ids": ["2000000013"]}, "2000000013 is no Chair"),
]
"""A call that the shop's rules forbid: what is other than in the sample, and what the desk says."""


def sample_of(name: str) -> Callable[[], Awaitable[BaseModel]]:
    async def sample() -> BaseModel:
        return TOOLS[name].args.model_validate(SAMPLES[name])

    return sample


def forward(tool: Tool[BaseModel, BaseModel], args: JsonObject, key: str) -> Awaitable[BaseModel]:
    return tool.forward(ToolCall(saga_id="test", step_no=1, key=key), tool.args.model_validate(args))


def test_there_is_a_sample_of_every_tool() -> None:
    assert SAMPLES.keys() == TOOLS.keys()


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_tool_keeps_the_contract(name: str, own_shop: Shop) -> None:
    # Each call of the check begins where no other has been.
    async def sample() -> BaseModel:
        fill(OWN.shop)
        return await sample_of(name)()

    assert await check_tool(TOOLS[name], sample, own_shop) == []


@pytest.mark.parametrize(("name", "args", "complaint"), REFUSALS)
async def test_what_the_rules_forbid_is_refused_and_writes_nothing(
    name: str, args: JsonObject, complaint: str, own_shop: Shop
) -> None:
    before = await own_shop.snapshot()

    with pytest.raises(ToolRefused, match=complaint):
        await forward(TOOLS[name], {**SAMPLES[name], **args}, key="test:1")

    assert await own_shop.snapshot() == before
    assert await own_shop.effects() == []


async def test_a_key_that_comes_with_other_arguments_is_refused(own_shop: Shop) -> None:
    tool = TOOLS["cancel_pending_order"]
    await forward(tool, SAMPLES[tool.name], key="test:1")
    cancelled = await own_shop.snapshot()

    with pytest.raises(ToolRefused, match="the key test:1 was used with other arguments"):
        await forward(tool, {"order_id": "#W1000004", "reason": "no longer needed"}, key="test:1")

    assert await own_shop.snapshot() == cancelled


async def test_an_order_whose_items_were_changed_can_be_sent_elsewhere_but_not_cancelled(own_shop: Shop) -> None:
    changed, moved, cancelled = (
        TOOLS[name] for name in ("modify_pending_order_items", "modify_pending_order_address", "cancel_pending_order")
    )
    await forward(changed, SAMPLES[changed.name], key="test:1")
    await forward(moved, SAMPLES[moved.name], key="test:2")

    with pytest.raises(ToolRefused, match="it can't be cancelled"):
        await forward(cancelled, {"order_id": "#W1000001", "reason": "no longer needed"}, key="test:3")

    assert [happened.key for happened in await own_shop.effects()] == ["test:1", "test:2"]
