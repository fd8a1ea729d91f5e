"""``countermand world``: serve the world simulator, look at it, and break it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal

import httpx2
from cyclopts import App, Parameter
from pydantic import JsonValue, TypeAdapter, ValidationError
from rich.table import Table

from countermand.cli.console import USAGE, CommandError, progress, say_json, stdout
from countermand.saga.types import in_major_units
from countermand.settings import Settings
from countermand.tools.world.control import State, list_operations, unknown_operation
from countermand.tools.world.errors import ErrorBody
from countermand.tools.world.faults import Fault, FaultRequest
from countermand.tools.world.operations import OperationInfo
from countermand.tools.world.server import listen, run_world
from countermand.tools.world.simulation import OPERATIONS

AsJson = Annotated[bool, Parameter("--json", help="Print JSON.")]
Url = Annotated[str | None, Parameter("--url", help="The world's base URL; found by itself if not given.")]

world = App(name="world")
_Json: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

fault = App(
    name="fault",
    help="""Faults: what goes wrong at the providers, and when.

    Example: countermand world fault list
    """,
)
world.command(fault)


@world.command
def serve(*, port: int = 8700, host: str = "127.0.0.1", db: Path | None = None, as_json: AsJson = False) -> int:
    """Serve the world until it is stopped.

    Example: ``countermand world serve --port 8700 --db world.db``

    Args:
        port: Port to listen on; 0 takes a free one.
        host: Address to listen on.
        db: Database file; without one everything is forgotten at the end.
        as_json: Say where it serves as JSON.
    """
    if db is not None and not db.parent.is_dir():
        raise CommandError(f"--db: the folder {db.parent} does not exist", USAGE)
    try:
        listener = listen(host, port)
    except OSError as error:
        raise CommandError(
            f"--port: cannot listen on {host}:{port} ({error.strerror}); choose another --port"
        ) from error
    url = f"http://{host}:{listener.getsockname()[1]}"

    def ready() -> None:
        if as_json:
            say_json({"url": url, "db": str(db) if db else None})
        else:
            _say(f"world ready at {url}, {f'kept in {db}' if db else 'in memory'}")

    run_world(db, listener, ready)
    return 0


@world.command
async def state(*, as_json: AsJson = False, url: Url = None) -> int:
    """Show every provider's tables and what stands now.

    Example: ``countermand world state --json``
    """
    return await _ask(url, "GET", "/state", _show_state, as_json=as_json)


@world.command
async def reset(*, as_json: AsJson = False, url: Url = None) -> int:
    """Empty the world: tables, ledger, idempotency keys and faults.

    Example: ``countermand world reset``
    """
    return await _ask(url, "POST", "/reset", lambda _content: _say("the world is empty"), as_json=as_json)


@world.command
async def operations(*, as_json: AsJson = False) -> int:
    """List the operations on which faults can be set.

    Example: ``countermand world operations``
    """
    listed = list_operations()
    if as_json:
        say_json(TypeAdapter(list[OperationInfo]).dump_python(listed, mode="json"))
        return 0
    rows = [(known.name, known.method, "effect" if known.effect else "read", *known.undone_by) for known in listed]
    _table("Operations", ("operation", "method", "class", "undone by", "or by"), rows)
    return 0


@fault.command
async def add(
    *,
    operation: str,
    kind: str,
    key: str | None = None,
    effect: Literal["before", "after"] = "before",
    nth: int | None = None,
    times: int | None = None,
    probability: float = 1.0,
    seed: int = 0,
    delay: float = 1.0,
    retry_after: int | None = None,
    as_json: AsJson = False,
    url: Url = None,
) -> int:
    """Set a fault; without ``--nth``, ``--times`` or ``--probability`` it strikes every call.

    Example: ``countermand world fault add --operation dns.register --kind http_503 --effect after --nth 2``

    Args:
        operation: Where: ``provider.verb``, see ``countermand world operations``.
        kind: What: http_NNN, hang, slow, drop, reset or decline.
        key: Strike only calls under this idempotency key.
        effect: Whether the call fails before its effect, or has it and then the answer is spoilt.
        nth: Strike at the n-th call from now.
        times: Strike that many times at most.
        probability: Share of the calls to strike, above 0 up to 1.
        seed: Seed of the draws, so that a run can be repeated.
        delay: Seconds that ``slow`` waits.
        retry_after: Retry-After header of an http_NNN answer, in seconds.
        as_json: Print one JSON document.
        url: The world's base URL.
    """
    if operation not in OPERATIONS:
        raise CommandError(f"--operation: {unknown_operation(operation)}", USAGE)
    try:
        wanted = FaultRequest(
            operation=operation,
            kind=kind,
            key=key,
            effect=effect,
            nth=nth,
            times=times,
            probability=probability,
            seed=seed,
            delay_s=delay,
            retry_after_s=retry_after,
        )
    except ValidationError as error:
        problem = error.errors()[0]
        option = str(problem["loc"][0]).removesuffix("_s").replace("_", "-")
        raise CommandError(f"--{option}: {problem['msg'].removeprefix('Value error, ')}", USAGE) from error
    body: JsonValue = wanted.model_dump(mode="json")
    return await _ask(url, "POST", "/faults", _show_fault, as_json=as_json, body=body)


@fault.command(name="list")
async def list_(*, as_json: AsJson = False, url: Url = None) -> int:
    """List the faults that are set, and how often each has struck.

    Example: ``countermand world fault list``
    """
    return await _ask(url, "GET", "/faults", _show_faults, as_json=as_json)


@fault.command
async def clear(fault_id: int | None = None, *, as_json: AsJson = False, url: Url = None) -> int:
    """Take one fault away by its id, or all.

    Example: ``countermand world fault clear``
    """
    path = "/faults" if fault_id is None else f"/faults/{fault_id}"
    return await _ask(url, "DELETE", path, lambda _content: _say("cleared"), as_json=as_json)


@asynccontextmanager
async def _base(url: str | None) -> AsyncGenerator[str]:
    if url is not None:
        yield url
        return
    # Starting servers is not needed, nor its imports paid for, where the address is given.
    from countermand.embedded import connected  # noqa: PLC0415 - see above

    async with connected(Settings(), notify=progress) as endpoints:
        yield endpoints.world_url


async def _ask(
    url: str | None,
    method: str,
    path: str,
    show: Callable[[bytes], None],
    *,
    as_json: bool,
    body: JsonValue = None,
) -> int:
    """Ask the world, and show its answer; the command's exit code."""
    async with _base(url) as base, httpx2.AsyncClient(timeout=30) as client:
        try:
            answer = await client.request(method, f"{base.rstrip('/')}{path}", json=body)
            if answer.is_client_error:
                raise CommandError(ErrorBody.model_validate_json(answer.content).error.message, USAGE)
            if answer.is_error:
                raise CommandError(f"the world at {base} failed with HTTP {answer.status_code}; its log says why")
            if as_json:
                say_json(_Json.validate_json(answer.content))
            else:
                show(answer.content)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            why = str(error) or type(error).__name__
            raise CommandError(
                f"the world at {base} does not answer ({why}); start one: countermand world serve"
            ) from error
        except ValidationError as error:
            raise CommandError(f"what answers at {base} is no world: set --url, or COUNTERMAND_WORLD_URL") from error
    return 0


def _show_state(content: bytes) -> None:
    shown = State.model_validate_json(content)
    standing = [
        (effect.provider, effect.kind, effect.id, effect.key, _money(effect.amount, effect.currency))
        for effect in shown.standing
    ]
    _table("Standing", ("provider", "kind", "id", "key", "amount"), standing)
    stock = [
        (plan.plan, str(plan.stock), _money(plan.price.amount, plan.price.currency)) for plan in shown.inventory.plans
    ]
    _table("Stock", ("plan", "units", "price"), stock)
    ledger = [
        (str(row.seq), row.operation, row.direction, row.id, row.key or "", _money(row.amount, row.currency))
        for row in shown.ledger
    ]
    _table("Ledger", ("seq", "operation", "direction", "id", "key", "amount"), ledger)


def _show_fault(content: bytes) -> None:
    set_now = Fault.model_validate_json(content)
    _say(f"fault {set_now.id} set: {set_now.kind} {set_now.effect} {set_now.operation}")


def _show_faults(content: bytes) -> None:
    rows = [
        (str(set_.id), set_.operation, set_.kind, set_.effect, _when(set_), str(set_.seen), str(set_.fired))
        for set_ in TypeAdapter(list[Fault]).validate_json(content)
    ]
    _table("Faults", ("id", "operation", "kind", "effect", "when", "seen", "fired"), rows)


def _when(set_: Fault) -> str:
    parts = [
        f"from call {set_.nth}" if set_.nth else "every call",
        f"{set_.times} times" if set_.times else ("once" if set_.nth else ""),
        f"p={set_.probability} seed={set_.seed}" if set_.probability < 1 else "",
    ]
    return ", ".join(part for part in parts if part)


def _money(amount: int | None, currency: str | None) -> str:
    return "" if amount is None else in_major_units(amount, currency or "")


def _table(title: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(*columns, title=f"{title} ({len(rows)})", title_justify="left")
    for row in rows:
        table.add_row(*row)
    stdout().print(table)


def _say(text: str) -> None:
    stdout().print(text, markup=False, soft_wrap=True)
