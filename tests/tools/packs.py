"""The packs' tools as their tests call them: by hand, against the real world, without a saga."""

from collections.abc import Awaitable, Callable

from pydantic import BaseModel

from countermand.saga.tool import AnyTool
from countermand.saga.types import Probed, ToolCall, Undone
from countermand.tools.cloud import CreateLoadBalancer, ProvisionCluster, create_load_balancer, provision_cluster
from countermand.tools.dns import RegisterDomainRoute, register_domain_route
from countermand.tools.inventory import Quote, QuoteOrder, ReserveStock, quote_order, reserve_stock
from countermand.tools.mail import SendConfirmation, send_confirmation
from countermand.tools.payments import AuthorizePayment, CapturePayment, authorize_payment, capture_payment

ORDER = QuoteOrder(
    plan="medium", region="eu-west", email="ada@example.com", hostname="ada.example.dev", load_balancers=2, quantity=3
)


def step(no: int) -> ToolCall:
    return ToolCall(saga_id="session/t1", step_no=no, key=f"session/t1:{no}")


def undo_of(call: ToolCall) -> ToolCall:
    return call.model_copy(update={"key": f"{call.step_key}:undo"})


async def forward(tool: AnyTool, call: ToolCall, args: BaseModel) -> BaseModel:
    result: BaseModel = await tool.forward(call, args)
    return result


async def undo(tool: AnyTool, call: ToolCall, args: BaseModel, result: BaseModel | None = None) -> Undone:
    assert tool.undo is not None
    return await tool.undo(undo_of(call), args, result)


async def probe(tool: AnyTool, call: ToolCall, args: BaseModel) -> Probed[BaseModel]:
    assert tool.probe is not None
    probed: Probed[BaseModel] = await tool.probe(call, args)
    return probed


async def quoted() -> Quote:
    return await quote_order.forward(step(1), ORDER)


async def for_quote() -> str:
    return (await quoted()).quote_id


async def payment() -> CapturePayment:
    made = await authorize_payment.forward(step(2), AuthorizePayment(quote_id=await for_quote()))
    return CapturePayment(payment_id=made.payment_id)


async def cluster() -> CreateLoadBalancer:
    made = await provision_cluster.forward(step(2), ProvisionCluster(quote_id=await for_quote()))
    return CreateLoadBalancer(cluster_id=made.cluster_id)


async def balancers() -> RegisterDomainRoute:
    made = [await create_load_balancer.forward(step(no), await cluster()) for no in (3, 4)]
    return RegisterDomainRoute(
        hostname=ORDER.hostname, load_balancer_ids=tuple(balancer.load_balancer_id for balancer in made)
    )


async def reservation_args() -> ReserveStock:
    return ReserveStock(quote_id=await for_quote())


async def authorization_args() -> AuthorizePayment:
    return AuthorizePayment(quote_id=await for_quote())


async def cluster_args() -> ProvisionCluster:
    return ProvisionCluster(quote_id=await for_quote())


async def mail_args() -> SendConfirmation:
    return SendConfirmation(quote_id=await for_quote())


Arguments = Callable[[], Awaitable[BaseModel]]
COMPENSABLE: list[tuple[AnyTool, str, Arguments]] = [
    (reserve_stock, "inventory.reserve", reservation_args),
    (authorize_payment, "payments.authorize", authorization_args),
    (capture_payment, "payments.capture", payment),
    (provision_cluster, "cloud.create_cluster", cluster_args),
    (create_load_balancer, "cloud.create_load_balancer", cluster),
    (register_domain_route, "dns.register", balancers),
]
IRREVERSIBLE: list[tuple[AnyTool, str, Arguments]] = [(send_confirmation, "mail.send", mail_args)]
