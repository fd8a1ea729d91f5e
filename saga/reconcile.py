"""Reconcile: what stands at the providers, compared with what the sagas say stands."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import JsonValue
from temporalio.client import Client

from countermand.saga.history import RecordedStep
from countermand.saga.janitor import recover
from countermand.saga.reading import SagaAccount, read_account, saga_ids
from countermand.saga.residuals import hold
from countermand.saga.tool import AnyTool, declared
from countermand.saga.types import (
    Cause,
    CauseKind,
    Compensation,
    Effect,
    Frozen,
    JsonObject,
    ListedEffect,
    Outcome,
    SagaOptions,
    SagaState,
    Standing,
    ToolCall,
)

_AT_A_TIME = 16
_UNENDED = {SagaState.OPEN, SagaState.COMPENSATING}


class FindingKind(StrEnum):
    """What does not agree.

    ``ORPHAN``: it stands, and no saga keeps it. ``MISSING``: a committed saga keeps it, and it does not stand.
    ``AMOUNT_DIFFERS``: it stands with another amount. ``LATE_FAILURE``: its undo was reported done, and it stands.
    """

    ORPHAN = "orphan"
    MISSING = "missing"
    AMOUNT_DIFFERS = "amount_differs"
    LATE_FAILURE = "late_failure"


class Finding(Frozen):
    """One disagreement; ``saga_id`` is None where the key is none of ours, ``id`` where nothing stands."""

    kind: FindingKind
    tool: str
    key: str
    saga_id: str | None
    step_no: int | None
    id: str | None
    amount: int | None
    currency: str | None
    args: JsonObject
    detail: str


class Reconciliation(Frozen):
    """What was compared, and what does not agree."""

    began: datetime
    effects: int
    sagas: int
    findings: tuple[Finding, ...]


class Mended(Frozen):
    """What was started: recoveries of sagas without an end; the others are residuals, left to an operator."""

    recovered: tuple[str, ...]
    held: tuple[str, ...]
    by_hand: tuple[str, ...]


async def reconcile(client: Client) -> Reconciliation:
    """Compare. Read-only; what is under way is left out, and found by the next comparison if it stays so.

    Effects are listed first and sagas read afterwards: of what is listed, the saga is then known.
    """
    began = datetime.now(UTC)
    listing = {tool: await tool.list_effects() for tool in declared().values() if tool.list_effects is not None}
    effects = {(tool.name, effect.key): effect for tool, found in listing.items() for effect in found}
    named = {saga_id for _, key in effects if (saga_id := _owner(key)[0]) is not None}
    accounts = await _accounts(client, named | await saga_ids(client))
    findings = [
        finding
        for (tool, key), effect in effects.items()
        if (finding := _standing(tool, effect, accounts.get(_owner(key)[0] or ""), began)) is not None
    ]
    for account in accounts.values():
        findings += _missing(account, listing.keys(), effects.keys(), began)
    return Reconciliation(began=began, effects=len(effects), sagas=len(accounts), findings=tuple(findings))


async def mend(client: Client, found: Reconciliation, *, task_queue: str, options: SagaOptions | None = None) -> Mended:
    """Start the recovery of sagas that closed without an end; hold as residuals what else stands and should not.

    An effect whose saga has no history is held too, never undone by itself: when retention has ended, a good order
    looks the same. What is missing, or of another amount, is for a person at the provider.
    """
    wrong = [one for one in found.findings if one.kind in {FindingKind.ORPHAN, FindingKind.LATE_FAILURE}]
    recovered: list[str] = []
    held: list[str] = []
    by_hand = [one.key for one in found.findings if one not in wrong or one.saga_id is None]
    for saga_id in sorted({one.saga_id for one in wrong if one.saga_id is not None}):
        account = await read_account(client, saga_id)
        if account is not None and account.state in _UNENDED:
            if await recover(client, saga_id, options):
                recovered.append(saga_id)
            continue
        mine = [one for one in wrong if one.saga_id == saga_id]
        steps = tuple(_reopened(one, account) for one in mine)
        queue = account.task_queue if account else task_queue
        cause = Cause(kind=CauseKind.UNKNOWN, message=f"reconciled: {mine[0].detail}")
        mended = SagaState.COMMITTED if account and account.state is SagaState.COMMITTED else SagaState.COMPENSATED
        how = options or SagaOptions()
        await hold(client, saga_id, steps, cause=cause, mended=mended, task_queue=queue, options=how)
        held.append(saga_id)
    return Mended(recovered=tuple(recovered), held=tuple(held), by_hand=tuple(by_hand))


async def _accounts(client: Client, ids: Iterable[str]) -> dict[str, SagaAccount]:
    at_a_time = asyncio.Semaphore(_AT_A_TIME)

    async def one(saga_id: str) -> SagaAccount | None:
        async with at_a_time:
            return await read_account(client, saga_id)

    found = await asyncio.gather(*map(one, ids))
    return {account.id: account for account in found if account is not None}


def _owner(key: str) -> tuple[str | None, int | None]:
    """The saga and the step that a key names; neither if it is none of ours."""
    saga_id, _, no = key.rpartition(":")
    return (saga_id, int(no)) if saga_id and no.isdecimal() and int(no) > 0 else (None, None)


def _standing(tool: str, effect: ListedEffect, account: SagaAccount | None, began: datetime) -> Finding | None:
    """What is wrong with an effect that stands, if anything is."""
    if effect.status is Standing.PASSED_ON or (account is not None and account.running):
        return None
    no = _owner(effect.key)[1]
    step = next((step for step in account.steps if step.no == no and step.tool == tool), None) if account else None
    if account is None or step is None:
        detail = f"saga {account.id} has no such step" if account else "no saga of its key's has a history (any more)"
        return _finding(FindingKind.ORPHAN, tool, effect, detail)
    if _keeps(account, step):
        return _amount(tool, effect, step)
    if _told(account, step) or (step.undo_ended is not None and step.undo_ended > began):
        return None
    if step.compensation is Compensation.DONE:
        return _finding(FindingKind.LATE_FAILURE, tool, effect, "its undo was reported done, but it stands")
    return _finding(FindingKind.ORPHAN, tool, effect, f"saga {account.id} is {account.state} and does not keep it")


def _keeps(account: SagaAccount, step: RecordedStep) -> bool:
    undone = step.compensation in {Compensation.DONE, Compensation.NOOP}
    return account.state is SagaState.COMMITTED and step.outcome is Outcome.DONE and not undone


def _told(account: SagaAccount, step: RecordedStep) -> bool:
    """Whether the saga's own report has the step as a residual."""
    if account.state in _UNENDED or step.compensation is Compensation.DONE:
        return False
    return account.residuals is SagaState.NEEDS_ATTENTION or declared()[step.tool].effect is Effect.IRREVERSIBLE


def _amount(tool: str, effect: ListedEffect, step: RecordedStep) -> Finding | None:
    total = (step.result or {}).get("total")
    expected = (total.get("amount"), total.get("currency")) if isinstance(total, dict) else None
    if effect.amount is None or expected is None or expected == (effect.amount, effect.currency):
        return None
    return _finding(FindingKind.AMOUNT_DIFFERS, tool, effect, f"the saga has {_money(*expected)}")


def _missing(
    account: SagaAccount, listed: Iterable[AnyTool], standing: Iterable[tuple[str, str]], began: datetime
) -> list[Finding]:
    """What a committed saga keeps and no provider lists."""
    if account.running:
        return []
    names, there = {tool.name for tool in listed}, set(standing)
    return [
        Finding(
            kind=FindingKind.MISSING,
            tool=step.tool,
            key=step.call.step_key,
            saga_id=account.id,
            step_no=step.no,
            id=None,
            amount=None,
            currency=None,
            args=step.args,
            detail=f"saga {account.id} committed it, and it does not stand",
        )
        for step in account.steps
        if step.tool in names and _keeps(account, step) and (step.tool, step.call.step_key) not in there
        if step.ended is not None and step.ended < began
    ]


def _finding(kind: FindingKind, tool: str, effect: ListedEffect, detail: str) -> Finding:
    saga_id, step_no = _owner(effect.key)
    return Finding(
        kind=kind,
        tool=tool,
        key=effect.key,
        saga_id=saga_id,
        step_no=step_no,
        id=effect.id,
        amount=effect.amount,
        currency=effect.currency,
        args=effect.args,
        detail=detail,
    )


def _money(amount: JsonValue, currency: JsonValue) -> str:
    return f"{amount} {currency} in minor units"


def _reopened(finding: Finding, account: SagaAccount | None) -> RecordedStep:
    """The step as a residual: from its history, or from what the provider tells where there is none."""
    no = finding.step_no or 1
    found = [step for step in account.steps if (step.no, step.tool) == (no, finding.tool)] if account else []
    if not found:
        call = ToolCall(saga_id=finding.saga_id or "", step_no=no, key=finding.key)
        return RecordedStep(
            tool=finding.tool, call=call, args=finding.args, outcome=Outcome.UNKNOWN, message=finding.detail
        )
    failed_undo = found[0].undo_ended if finding.kind is FindingKind.LATE_FAILURE else None
    # Whatever its saga was told: it stands.
    outcome = Outcome.UNKNOWN if found[0].outcome is Outcome.REFUSED else found[0].outcome
    changes = {
        "outcome": outcome,
        "compensation": Compensation.NONE,
        "failed_undo": failed_undo,
        "message": finding.detail,
    }
    return found[0].model_copy(update=changes)
