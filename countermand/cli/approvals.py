"""``countermand approvals``: the calls that wait for a person, and what is decided about them."""

import getpass
import re
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from countermand.cli.console import COMMITTED, ERROR, USAGE, CommandError, say_json, stdout
from countermand.cli.saga import Json, client_of_servers
from countermand.saga.approvals import Answer, decide_approval, pending_approvals
from countermand.saga.types import ID_PATTERN

approvals = App(name="approvals")
Id = Annotated[str, Parameter(help="The approval's id, as the list shows it.")]
By = Annotated[str | None, Parameter(help="Who decided; you, if not given.")]
Reason = Annotated[str, Parameter(help="Why; a refusal's is told to the agent.")]
Digest = Annotated[str | None, Parameter(help="Decide only if the call has the arguments of this digest.")]


@approvals.command(name="list")
async def list_(*, json_output: Json = False) -> int:
    """List the calls that wait for a person. Example: countermand approvals list --json."""
    async with client_of_servers() as client:
        waiting = await pending_approvals(client)
    if json_output:
        say_json([request.model_dump(mode="json") for request in waiting])
        return COMMITTED
    table = Table("approval", "agent", "call", "cost", "undoing it would", "asked by rule", "until")
    for request in waiting:
        table.add_row(
            request.id,
            request.agent or "",
            f"{request.tool} {request.args}",
            str(request.cost or ""),
            request.undo,
            request.rule,
            request.expires.isoformat(timespec="seconds"),
        )
    stdout().print(table)
    return COMMITTED


@approvals.command
async def grant(
    approval: Id, /, *, by: By = None, reason: Reason = "", digest: Digest = None, json_output: Json = False
) -> int:
    """Let a waiting call be made; twice is once. Example: countermand approvals grant chat-1a2b3c4d/t2:3."""
    return await _decide(approval, Answer.GRANTED, by=by, reason=reason, digest=digest, json_output=json_output)


@approvals.command
async def refuse(
    approval: Id, /, *, by: By = None, reason: Reason = "", digest: Digest = None, json_output: Json = False
) -> int:
    """Have a waiting call not be made. Example: countermand approvals refuse chat-1a2b3c4d/t2:3 --reason "too dear"."""
    return await _decide(approval, Answer.REFUSED, by=by, reason=reason, digest=digest, json_output=json_output)


async def _decide(
    approval: str, wanted: Answer, *, by: str | None, reason: str, digest: str | None, json_output: bool
) -> int:
    who = by or getpass.getuser()
    if not re.fullmatch(ID_PATTERN, who):
        raise CommandError("--by: name an account, by 1 to 64 letters, digits, dots, underscores or dashes", USAGE)
    async with client_of_servers() as client:
        answered = await decide_approval(
            client, approval, granted=wanted is Answer.GRANTED, by=who, reason=reason, digest=digest
        )
    if json_output:
        say_json(answered.model_dump(mode="json"))
    else:
        stdout().print(f"{approval}: {answered.answer} by {answered.by}, {answered.at.isoformat(timespec='seconds')}")
    return COMMITTED if answered.answer is wanted else ERROR
