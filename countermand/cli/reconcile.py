"""``countermand reconcile``: what stands at the providers, against what the sagas say."""

from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from countermand.cli.console import COMMITTED, NEEDS_ATTENTION, say_json, stderr, stdout
from countermand.client import connect
from countermand.embedded import connected
from countermand.saga.reconcile import Mended, Reconciliation, mend
from countermand.saga.reconcile import reconcile as compare
from countermand.saga.types import JsonObject, SagaOptions, in_major_units
from countermand.settings import Settings
from countermand.tools.client import providers_at
from countermand.tools.registry import load_tools

reconcile = App(
    name="reconcile",
    help="""Compare what stands at every provider with what the sagas say; exits with 4 if they do not agree.

Finds orphans, what is missing, amounts that differ, and undos that failed after they were reported done. A dry run
unless --mend is given: that starts recoveries, and leaves to 'countermand saga resolve' what needs a person.

Example: countermand reconcile --mend""",
)


@reconcile.default
async def _reconcile(
    *,
    mending: Annotated[bool, Parameter(name="--mend", negative="", help="Start what mends it.")] = False,
    json_output: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")] = False,
) -> int:
    settings = Settings()
    load_tools(settings.tools)
    async with connected(settings, notify=lambda line: stderr().print(line, style="dim")) as endpoints:
        client = await connect(endpoints)
        async with providers_at(endpoints.world_url):
            found = await compare(client)
        mended = None
        if mending:
            mended = await mend(client, found, task_queue=endpoints.task_queue, options=SagaOptions(audit=True))
    if json_output:
        whole: JsonObject = found.model_dump(mode="json")
        say_json({**whole, "mended": mended.model_dump(mode="json") if mended else None})
    else:
        _show(found, mended)
    return NEEDS_ATTENTION if found.findings else COMMITTED


def _show(found: Reconciliation, mended: Mended | None) -> None:
    console = stdout()
    console.print(f"{found.effects} effects and {found.sagas} sagas compared: {len(found.findings)} do not agree.")
    if found.findings:
        table = Table("what", "tool", "key", "id", "amount", "why")
        for one in found.findings:
            amount = "" if one.amount is None else in_major_units(one.amount, one.currency or "")
            table.add_row(one.kind, one.tool, one.key, one.id or "", amount, one.detail)
        console.print(table)
    if mended is None:
        if found.findings:
            console.print("Nothing was changed; --mend starts what mends it.")
        return
    for saga_id in mended.recovered:
        console.print(f"recovering {saga_id}")
    for saga_id in mended.held:
        console.print(f"held for an operator: countermand saga show {saga_id}")
    for key in mended.by_hand:
        console.print(f"by hand, at the provider: {key}")
