"""Every tool of ours keeps the contract; a new one is checked by being registered."""

import uuid
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel

from countermand.saga.tool import AnyTool
from countermand.saga.types import ToolCall
from countermand.testing.contract import check_tool
from countermand.testing.worlds import WorldUnderTest
from countermand.tools.client import providers_at
from countermand.tools.cloud import CreateLoadBalancer, ProvisionCluster, create_load_balancer, provision_cluster
from countermand.tools.dns import LookUpDomain, RegisterDomainRoute
from countermand.tools.inventory import QuoteOrder, ReserveStock, quote_order
from countermand.tools.mail import ReadMail, SendConfirmation
from countermand.tools.payments import AuthorizePayment, CapturePayment, authorize_payment
from countermand.tools.registry import load_tools

HOST = "shop.example.com"

NO_PROVIDER = {"countermand.tools.sagas", "countermand.tools.limits"}
"""Their tools act on workflows, and run inside an activity only; test_revoke.py and test_limits.py judge them."""

OURS = [
    tool
    for tool in load_tools().values()
    # Other tests declare tools of their own in this process.
    if tool.forward.__module__.startswith("countermand.tools.") and tool.forward.__module__ not in NO_PROVIDER
]


def _call(name: str) -> ToolCall:
    """What the stage is set with: steps of another saga."""
    return ToolCall(saga_id="stage", step_no=1, key=f"stage:{name}")


async def _quote_id() -> str:
    return (await quote_order.forward(_call("quote"), await an_order())).quote_id


async def an_order() -> QuoteOrder:
    return QuoteOrder(plan="small", region="eu-west", email="ada@example.com", hostname=HOST)


async def a_reservation() -> ReserveStock:
    return ReserveStock(quote_id=await _quote_id())


async def an_authorization() -> AuthorizePayment:
    return AuthorizePayment(quote_id=await _quote_id())


async def a_capture() -> CapturePayment:
    # A hold of its own for each call: what was captured can't be captured again.
    held = await authorize_payment.forward(_call(uuid.uuid4().hex), await an_authorization())
    return CapturePayment(payment_id=held.payment_id)


async def a_cluster() -> ProvisionCluster:
    return ProvisionCluster(quote_id=await _quote_id())


async def a_load_balancer() -> CreateLoadBalancer:
    made = await provision_cluster.forward(_call("cluster"), await a_cluster())
    return CreateLoadBalancer(cluster_id=made.cluster_id)


async def a_route() -> RegisterDomainRoute:
    balancer = await create_load_balancer.forward(_call("balancer"), await a_load_balancer())
    return RegisterDomainRoute(hostname=HOST, load_balancer_ids=(balancer.load_balancer_id,))


async def a_mail() -> SendConfirmation:
    return SendConfirmation(quote_id=await _quote_id())


async def a_lookup() -> LookUpDomain:
    return LookUpDomain(hostname=HOST)


async def an_inbox() -> ReadMail:
    return ReadMail(sender="ada@example.com")


SAMPLES: dict[str, Callable[[], Awaitable[BaseModel]]] = {
    "quote_order": an_order,
    "reserve_stock": a_reservation,
    "authorize_payment": an_authorization,
    "capture_payment": a_capture,
    "provision_cluster": a_cluster,
    "create_load_balancer": a_load_balancer,
    "register_domain_route": a_route,
    "send_confirmation": a_mail,
    "look_up_domain": a_lookup,
    "read_mail": an_inbox,
}
"""Arguments of one call to each tool, its stage set."""


@pytest.mark.parametrize("tool", OURS, ids=lambda tool: tool.name)
async def test_a_tool_keeps_the_contract(tool: AnyTool, world: WorldUnderTest) -> None:
    assert tool.name in SAMPLES, f"tool {tool.name!r} is registered, but SAMPLES has no call to check it with"
    # The name has an owner already, who must get it back.
    await world.seed(
        records=[{"name": HOST, "values": ["203.0.113.7"]}],
        letters=[{"sender": "ada@example.com", "subject": "Hello", "body": "Is my shop up?"}],
    )
    async with providers_at(world.url):
        assert await check_tool(tool, SAMPLES[tool.name], world) == []
