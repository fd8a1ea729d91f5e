"""``countermand setup``: what a configured Temporal server needs, once."""

from typing import Annotated

from cyclopts import App, Parameter
from temporalio.client import Client
from temporalio.service import RPCError

from countermand.cli.console import USAGE, CommandError, say_json, stderr, stdout
from countermand.client import connect
from countermand.embedded import connected
from countermand.saga.janitor import SWEEP_EVERY, schedule_janitor
from countermand.saga.setup import RETENTION_AT_LEAST, register_saga_state, retention
from countermand.saga.types import Frozen, SagaOptions
from countermand.settings import Settings

setup = App(
    name="setup",
    help="""Make a Temporal namespace ready for sagas: the search attribute and the janitor's schedule. Twice is once.

Example: COUNTERMAND_TEMPORAL_HOST=temporal.internal:7233 countermand setup""",
)


class Ready(Frozen):
    """What was found and made; ``registered`` is false where the search attribute was there already."""

    namespace: str
    retention_days: float
    registered: bool
    sweep_every_s: float
    warnings: tuple[str, ...]


@setup.default
async def _setup(
    *, json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")] = False
) -> int:
    settings = Settings()
    if settings.embedded:
        raise CommandError(
            "embedded servers need no setup; set COUNTERMAND_TEMPORAL_HOST to the server to set up", USAGE
        )
    async with connected(settings) as endpoints:
        ready = await _prepare(await connect(endpoints), endpoints.task_queue)
    if json_output:
        say_json(ready.model_dump(mode="json"))
        return 0
    made = "registered" if ready.registered else "there"
    stdout().print(
        f"Namespace {ready.namespace}: search attribute SagaState is {made}, histories are kept for "
        f"{ready.retention_days:g} days, the janitor sweeps every {ready.sweep_every_s:g} s."
    )
    for warning in ready.warnings:
        stderr().print(f"warning: {warning}", style="yellow")
    return 0


async def _prepare(client: Client, task_queue: str) -> Ready:
    try:
        kept = await retention(client)
        registered = await register_saga_state(client)
        await schedule_janitor(client, SagaOptions(audit=True), task_queue=task_queue)
    except RPCError as error:
        raise CommandError(f"Temporal refused ({error.status.name.lower()}): {error.message}") from error
    short = (
        f"histories are kept for {kept.days} days: a saga that is lost for longer can't be recovered; "
        f"keep them for {RETENTION_AT_LEAST.days} days at least"
    )
    return Ready(
        namespace=client.namespace,
        retention_days=kept.total_seconds() / 86_400,
        registered=registered,
        sweep_every_s=SWEEP_EVERY.total_seconds(),
        warnings=(short,) if kept < RETENTION_AT_LEAST else (),
    )
