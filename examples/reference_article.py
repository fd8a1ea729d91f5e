"""The saga of the well-known article, in one file: pay, provision, route; DNS fails, and both others are undone.

Run it: ``python examples/reference_article.py``. It starts a Temporal server, the world and a worker by itself.
"""

import asyncio
import json

from pydantic import Field
from temporalio import workflow
from temporalio.worker import Worker

from countermand.saga import SagaOptions, SagaRolledBack, ToolCall, transaction
from countermand.saga.types import Compensation, Frozen, JsonObject, ProbeAnswer, Probed, Undone
from countermand.testing.servers import temporal_skipping
from countermand.testing.worlds import WorldUnderTest
from countermand.tools import client
from countermand.tools.client import providers_at
from countermand.tools.tool import tool
from countermand.tools.world.models import cloud, dns, payments
from countermand.tools.world.models.common import Undone as WorldUndone
from countermand.tools.world.server import serve_world


class ChargePayment(Frozen):
    """Charge an order. ``amount`` is in cents (minor units of US dollars)."""

    order_id: str
    amount: int = Field(gt=0)


class ProvisionServer(Frozen):
    """Provision the order's server."""

    order_id: str


class RegisterDomain(Frozen):
    """Let the order's host name point to its server."""

    order_id: str
    server_id: str


class Receipt(Frozen):
    """What the charge came to."""

    payment_id: str


class Server(Frozen):
    """The server that was provisioned."""

    server_id: str


class Route(Frozen):
    """The record that was written."""

    hostname: str


async def refund_charge(call: ToolCall, _args: ChargePayment, _result: Receipt | None) -> Undone:
    """Give the money back; what was held and not yet taken is released."""
    try:
        return client.undone(await client.undo("payments.refund", call, WorldUndone[payments.RefundAnswer]))
    except client.Refused as refused:
        if refused.code != "payment_not_captured":
            raise
    return client.undone(
        await client.undo("payments.void", call, WorldUndone[payments.Payment], key=f"{call.key}:void")
    )


async def find_payment(call: ToolCall, _args: ChargePayment) -> Probed[Receipt]:
    """Did the charge land? Money that is held and not taken may still be on its way."""
    held = await client.probe("payments.authorize", call, payments.Payment, _receipt)
    if held.result is None:
        return held
    payment = await client.read("payments.get_payment", payments.Payment, id=held.result.payment_id)
    return held if payment.status == "captured" else Probed(ProbeAnswer.UNKNOWN)


@tool(effect="compensable", compensate=refund_charge, probe=find_payment)
async def charge_payment(call: ToolCall, args: ChargePayment) -> Receipt:
    """Hold the amount on the customer's card, and take it."""
    wanted = payments.Authorize(amount=args.amount, currency="usd", reference=args.order_id)
    held = await client.act("payments.authorize", payments.Payment, wanted, key=call.key)
    take = payments.Capture(payment_id=held.id)
    return _receipt(await client.act("payments.capture", payments.Payment, take, key=f"{call.key}:capture"))


async def terminate_server(call: ToolCall, _args: ProvisionServer, _result: Server | None) -> Undone:
    """Terminate the server."""
    return client.undone(await client.undo("cloud.terminate_cluster", call, WorldUndone[cloud.Cluster]))


async def find_server(call: ToolCall, _args: ProvisionServer) -> Probed[Server]:
    """Did the call make a server?"""
    return await client.probe("cloud.create_cluster", call, cloud.Cluster, _server)


@tool(effect="compensable", compensate=terminate_server, probe=find_server)
async def provision_server(call: ToolCall, args: ProvisionServer) -> Server:
    """Provision a small server in eu-west."""
    wanted = cloud.CreateCluster(plan="small", region="eu-west", reference=args.order_id)
    return _server(await client.act("cloud.create_cluster", cloud.Cluster, wanted, key=call.key))


async def unregister_domain(call: ToolCall, _args: RegisterDomain, _result: Route | None) -> Undone:
    """Take the record away."""
    return client.undone(await client.undo("dns.unregister", call, WorldUndone[dns.Restored]))


async def find_route(call: ToolCall, _args: RegisterDomain) -> Probed[Route]:
    """Did the call write its record?"""
    return await client.probe("dns.register", call, dns.Registered, _route)


@tool(effect="compensable", compensate=unregister_domain, probe=find_route)
async def register_domain(call: ToolCall, args: RegisterDomain) -> Route:
    """Write the host name's record; refused if the name has one already."""
    wanted = dns.Register(name=hostname_of(args.order_id), type="CNAME", values=[f"{args.server_id}.cloud.example.net"])
    return _route(await client.act("dns.register", dns.Registered, wanted, key=call.key))


@workflow.defn
class AgentTransactionSagaWorkflow:
    """Pays, provisions and routes an order, or undoes all of it."""

    @workflow.run
    async def run(self, order_id: str, amount: float, options: SagaOptions) -> JsonObject:
        """Place the order; ``amount`` is in US dollars."""
        try:
            async with transaction(options) as saga:
                await saga.run(charge_payment, ChargePayment(order_id=order_id, amount=round(amount * 100)))
                server = await saga.run(provision_server, ProvisionServer(order_id=order_id))
                await saga.run(register_domain, RegisterDomain(order_id=order_id, server_id=server.server_id))
        except SagaRolledBack as error:
            undone = [step for step in error.report.steps if step.compensation is Compensation.DONE]
            return {
                "status": "rolled_back",
                "order_id": order_id,
                "error": error.message,
                "compensations_executed": len(undone),
            }
        return {"status": "completed", "order_id": order_id}


def hostname_of(order_id: str) -> str:
    """The host name of an order."""
    return f"{order_id.replace('_', '-')}.example.com"


def _receipt(payment: payments.Payment) -> Receipt:
    return Receipt(payment_id=payment.id)


def _server(cluster: cloud.Cluster) -> Server:
    return Server(server_id=cluster.id)


def _route(written: dns.Registered) -> Route:
    return Route(hostname=written.record.name)


async def main() -> None:
    """Place order ord_9901 for 149.00 USD, whose host name belongs to somebody else."""
    taken: JsonObject = {"name": hostname_of("ord_9901"), "type": "CNAME", "values": ["somebody.example.net"]}
    async with serve_world() as served, temporal_skipping() as temporal, providers_at(served.url):
        await WorldUnderTest(served.url).seed(records=[taken])
        async with Worker(temporal.client, task_queue="orders", workflows=[AgentTransactionSagaWorkflow]):
            outcome = await temporal.client.execute_workflow(
                AgentTransactionSagaWorkflow.run,
                args=["ord_9901", 149.00, SagaOptions(visibility=False)],
                id="order-ord_9901",
                task_queue="orders",
            )
    print(json.dumps(outcome, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
