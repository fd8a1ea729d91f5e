"""``countermand saga resolve`` and ``revoke``: what people do about sagas."""

import getpass
import re
from typing import Annotated

from cyclopts import Parameter

from countermand.cli.console import COMMITTED, NEEDS_ATTENTION, USAGE, CommandError, exit_code_of, say_json, stdout
from countermand.cli.saga import Json, SagaId, client_of_servers, saga
from countermand.saga.residuals import Choice, Decision, decide
from countermand.saga.revoke import revoke as revoke_saga
from countermand.saga.types import ID_PATTERN
from countermand.tools.registry import load_tools

By = Annotated[str | None, Parameter(help="Who decided; you, if not given.")]


@saga.command
async def resolve(
    saga_id: SagaId,
    step: Annotated[int, Parameter(help="The step that left a residual.")],
    /,
    *,
    retry: Annotated[bool, Parameter(help="Try its undo again.")] = False,
    done_by_hand: Annotated[bool, Parameter(help="It was undone by hand.")] = False,
    give_up: Annotated[bool, Parameter(help="It stands for good; needs --reason.")] = False,
    by: By = None,
    reason: Annotated[str, Parameter(help="Why.")] = "",
    json_output: Json = False,
) -> int:
    """Decide what a saga left standing. Example: countermand saga resolve chat-1a2b3c4d/t2 7 --retry."""
    chosen = [
        choice
        for choice, wanted in ((Choice.RETRY, retry), (Choice.DONE_BY_HAND, done_by_hand), (Choice.GIVE_UP, give_up))
        if wanted
    ]
    if len(chosen) != 1:
        raise CommandError("choose one of --retry, --done-by-hand and --give-up", USAGE)
    decision = Decision(step_no=step, choice=chosen[0], by=by or getpass.getuser(), reason=reason)
    async with client_of_servers() as client:
        decided = await decide(client, saga_id, decision)
    if json_output:
        say_json(decided.model_dump(mode="json"))
    else:
        stdout().print(f"{saga_id} step {step}: {decided.detail}")
    return COMMITTED if decided.settled else NEEDS_ATTENTION


@saga.command
async def revoke(
    saga_id: SagaId,
    /,
    *,
    by: By = None,
    reason: Annotated[str, Parameter(help="Why.")] = "revoked by an operator",
    json_output: Json = False,
) -> int:
    """Undo a saga that had committed; twice is once. Example: countermand saga revoke chat-1a2b3c4d/t2."""
    load_tools()
    who = by or getpass.getuser()
    if not re.fullmatch(ID_PATTERN, who):
        raise CommandError("--by: name an account, by 1 to 64 letters, digits, dots, underscores or dashes", USAGE)
    async with client_of_servers() as client:
        report = await revoke_saga(client, saga_id, by=who, actor=f"operator:{who}", reason=reason)
    if json_output:
        say_json(report.model_dump(mode="json"))
    else:
        stdout().print(f"{saga_id}: {report.state}")
        for residual in report.residuals:
            stdout().print(f"  left: step {residual.step_no}, {residual.message}")
    return exit_code_of(report.state)


__all__ = ["saga"]
