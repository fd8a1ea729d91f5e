"""What is not a provider's: the state that tests judge by, faults, the stage, the clock."""

from typing import get_args

from fastapi import APIRouter, Request

from countermand.tools.world import cloud, dns, faults, inventory, ledger, mail, payments
from countermand.tools.world.errors import Refusal
from countermand.tools.world.faults import Fault, FaultRequest
from countermand.tools.world.ledger import LedgerEntry, Standing
from countermand.tools.world.models.cloud import CloudState
from countermand.tools.world.models.common import Frozen, PlanName
from countermand.tools.world.models.dns import DnsState
from countermand.tools.world.models.inventory import InventoryState
from countermand.tools.world.models.mail import MailState
from countermand.tools.world.models.payments import PaymentsState
from countermand.tools.world.operations import OperationInfo
from countermand.tools.world.settings import AdvanceClock, Seed, Settings
from countermand.tools.world.simulation import OPERATIONS, PROVIDERS, Simulation

router = APIRouter()


class State(Frozen):
    """All that the world knows; ``standing`` is empty when the world is net zero."""

    payments: PaymentsState
    inventory: InventoryState
    cloud: CloudState
    dns: DnsState
    mail: MailState
    standing: list[Standing]
    ledger: list[LedgerEntry]


class Health(Frozen):
    """The world answers."""

    status: str = "ok"


def _simulation(request: Request) -> Simulation:
    simulation: Simulation = request.app.state.simulation
    return simulation


@router.get("/healthz")
async def healthz() -> Health:
    """Whether the world answers."""
    return Health()


@router.get("/operations")
async def operations() -> list[OperationInfo]:
    """All operations of all providers."""
    return list_operations()


@router.get("/state")
async def state(request: Request) -> State:
    """All tables, what stands, and the ledger."""
    simulation = _simulation(request)
    with simulation.transaction("world.state") as call:
        simulation.settle(call)
        return State(
            payments=payments.tables(call.session),
            inventory=inventory.tables(call.session),
            cloud=cloud.tables(call.session),
            dns=dns.tables(call.session),
            mail=mail.tables(call.session),
            standing=[effect for provider in PROVIDERS for effect in provider.standing(call.session)],
            ledger=ledger.entries(call.session),
        )


@router.post("/reset")
async def reset(request: Request) -> Health:
    """Empty everything."""
    _simulation(request).reset()
    return Health()


@router.post("/seed")
async def seed(request: Request, body: Seed) -> Settings:
    """Set the stage: delays, quotas, stock, records and mails that are there before anybody calls."""
    simulation = _simulation(request)
    stock = {plan: body.stock[plan] for plan in get_args(PlanName) if plan in body.stock}
    if unknown := body.stock.keys() - stock.keys():
        raise Refusal(422, "parameter_invalid", f"stock: no plan is called {', '.join(sorted(unknown))}.")
    with simulation.transaction("world.seed") as call:
        inventory.stock_up(call.session, stock)
        for record in body.records:
            dns.write(call.session, record, key=None, live_at=call.now)
        for letter in body.letters:
            mail.receive(call.session, letter, received_at=call.now)
    set_now = body.model_dump(exclude={"stock", "records", "letters"}, exclude_none=True)
    simulation.change_settings(simulation.settings.model_copy(update=set_now))
    return simulation.settings


@router.post("/clock")
async def clock(request: Request, body: AdvanceClock) -> Settings:
    """Let time pass."""
    simulation = _simulation(request)
    offset = simulation.settings.clock_offset_s + body.seconds
    simulation.change_settings(simulation.settings.model_copy(update={"clock_offset_s": offset}))
    return simulation.settings


@router.post("/faults")
async def add_fault(request: Request, body: FaultRequest) -> Fault:
    """Set a fault."""
    if body.operation not in OPERATIONS:
        raise Refusal(422, "parameter_invalid", f"operation: {unknown_operation(body.operation)}")
    with _simulation(request).changing_faults() as call:
        return faults.add(call.session, body)


@router.get("/faults")
async def list_faults(request: Request) -> list[Fault]:
    """All faults that are set, with how often each fired."""
    with _simulation(request).transaction("world.faults") as call:
        return faults.listed(call.session)


@router.delete("/faults")
async def clear_faults(request: Request) -> Health:
    """Take all faults away."""
    with _simulation(request).changing_faults() as call:
        for fault in faults.listed(call.session):
            faults.remove(call.session, fault.id)
    return Health()


@router.delete("/faults/{fault_id}")
async def remove_fault(request: Request, fault_id: int) -> Health:
    """Take one fault away."""
    with _simulation(request).changing_faults() as call:
        faults.remove(call.session, fault_id)
    return Health()


def list_operations() -> list[OperationInfo]:
    """All operations of all providers, and what undoes each."""
    return [
        OperationInfo(
            name=operation.name,
            method=operation.method,
            path=operation.path,
            effect=operation.effect,
            undone_by=[other.name for other in OPERATIONS.values() if operation.name in other.undoes],
            fenced=True,
        )
        for operation in OPERATIONS.values()
    ]


def unknown_operation(name: str) -> str:
    """What to tell somebody who named an operation that there is not."""
    provider = name.partition(".")[0]
    near = [known for known in OPERATIONS if known.startswith(f"{provider}.")] or list(OPERATIONS)
    return f"{name[:60]!r} is no operation; there are {', '.join(near)}"
