"""``countermand saga``: what sagas did, and what they left."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table
from temporalio.client import Client

from countermand.agents.used import usage_in
from countermand.cli.console import COMMITTED, exit_code_of, progress, say_json, stderr, stdout
from countermand.client import connect
from countermand.embedded import connected
from countermand.saga.history import RecordedStep
from countermand.saga.janitor import janitor_health
from countermand.saga.reading import list_sagas, read_saga
from countermand.saga.types import JsonObject, SagaState, in_major_units
from countermand.settings import Settings

saga = App(name="saga")
SagaId = Annotated[str, Parameter(help="The saga's id, which is its workflow's.")]
Json = Annotated[bool, Parameter(name="--json", help="Print JSON.")]


@asynccontextmanager
async def client_of_servers() -> AsyncGenerator[Client]:
    """A client of the servers that the settings name."""
    async with connected(Settings(), notify=progress) as endpoints:
        yield await connect(endpoints)


@saga.command(name="list")
async def list_(
    *,
    state: Annotated[SagaState | None, Parameter(help="Only sagas of this state.")] = None,
    limit: Annotated[int, Parameter(help="At most so many, the newest first.")] = 50,
    json_output: Json = False,
) -> int:
    """List sagas, the newest first. Example: countermand saga list --state needs_attention."""
    async with client_of_servers() as client:
        lines = await list_sagas(client, state=state, limit=limit)
        janitor = await janitor_health(client)
    if json_output:
        say_json([line.model_dump(mode="json") for line in lines])
        return COMMITTED
    table = Table("saga", "state", "running", "started", "seconds")
    for line in lines:
        seconds = f"{(line.closed - line.started).total_seconds():.2f}" if line.closed else ""
        running = "yes" if line.running else ""
        table.add_row(line.id, line.state, running, line.started.isoformat(timespec="seconds"), seconds)
    stdout().print(table)
    if janitor.problem:
        stderr().print(f"warning: {janitor.problem}", style="yellow")
    return COMMITTED


@saga.command
async def show(saga_id: SagaId, /, *, json_output: Json = False) -> int:
    """Show a saga's ledger and timeline; the exit code tells its state. Example: countermand saga show order-7."""
    async with client_of_servers() as client:
        detail = await read_saga(client, saga_id)
        used = await usage_in(client, saga_id)
    if json_output:
        usage: JsonObject = {model: one.model_dump(mode="json") for model, one in used.items()}
        say_json({**detail.model_dump(mode="json"), "usage": usage})
    else:
        console = stdout()
        console.print(f"{detail.id}: {detail.state or 'unknown'}{', running' if detail.running else ''}")
        if detail.cause:
            console.print(f"cause: {detail.cause.kind}, {detail.cause.message}")
        table = Table("step", "tool", "agent", "outcome", "undo", "order", "at", "seconds", "money")
        for step in detail.steps:
            table.add_row(*_row(step, detail.steps[0]))
        console.print(table)
        for residual in detail.residuals:
            console.print(f"left: step {residual.step_no}, {residual.message}", style="red")
        for model, one in used.items():
            console.print(f"{model}: {one}", markup=False)
    return exit_code_of(detail.state) if detail.state and not detail.running else COMMITTED


def _row(step: RecordedStep, first: RecordedStep) -> list[str]:
    seconds = f"{(step.ended - step.started).total_seconds():.2f}" if step.ended and step.started else ""
    at = f"+{(step.started - first.started).total_seconds():.2f}" if step.started and first.started else ""
    return [
        str(step.no),
        step.tool,
        step.call.agent or "",
        step.outcome,
        step.compensation,
        str(step.undo_no or ""),
        at,
        seconds,
        _money(step),
    ]


def _money(step: RecordedStep) -> str:
    """The amount that a step's result names, in its currency's own notation."""
    total = (step.result or {}).get("total")
    if not isinstance(total, dict):
        return ""
    amount, currency = total.get("amount"), total.get("currency")
    return in_major_units(amount, str(currency)) if isinstance(amount, int) else ""
