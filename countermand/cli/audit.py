"""``countermand audit``: verify the audit log offline, show it, export it, prove a saga, forget one."""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from pydantic import JsonValue

from countermand.cli.console import ERROR, say_json, stdout
from countermand.cli.saga import client_of_servers
from countermand.saga.audit.entries import Entry
from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.export import export as export_log
from countermand.saga.audit.export import prove as prove_saga
from countermand.saga.audit.findings import Verification
from countermand.saga.audit.heads import published
from countermand.saga.audit.judge import read_leaf
from countermand.saga.audit.keys import KEYRING_FILE, load_signer, read_keyring
from countermand.saga.audit.keys import trust as trust_key
from countermand.saga.audit.log import HEADS_FILE, LOG_FILE, SALTS_FILE
from countermand.saga.audit.reader import read_log
from countermand.saga.audit.salts import Salts
from countermand.saga.audit.verify import reconcile
from countermand.saga.audit.verify import verify as verify_log
from countermand.saga.reading import final_states
from countermand.saga.types import JsonObject, SagaState
from countermand.settings import Settings

audit = App(name="audit")

LogPlace = Annotated[
    str | None, Parameter(name="--log", help="A path (SQLite) or a database URL; else the embedded log.")
]
KeysPlace = Annotated[Path | None, Parameter(name="--keys", help="The public keys that you trust.")]
AsJson = Annotated[bool, Parameter(name="--json", help="Answer in JSON.")]


@audit.command
def verify(
    *,
    log: LogPlace = None,
    head: Annotated[
        Path | None, Parameter(name="--head", help="Heads that were published; without them a cut-off log looks whole.")
    ] = None,
    keys: KeysPlace = None,
    against_temporal: Annotated[bool, Parameter(help="Compare with the sagas that Temporal knows, too.")] = False,
    as_json: AsJson = False,
) -> int:
    """Verify the whole log offline; every finding is named with its place.

    Example: countermand audit verify --log audit.db --head audit-heads.jsonl --keys audit-keys.json
    """
    known = asyncio.run(_known_to_temporal()) if against_temporal else ()
    checked = check(log, heads=head, keys=keys, temporal=known)
    _answer(checked, as_json=as_json)
    return 0 if checked.ok else ERROR


@audit.command
def show(saga: str, /, *, log: LogPlace = None, as_json: AsJson = False) -> int:
    """Show a saga's receipts and entries, as they stand in the log; `verify` tells whether they can be trusted.

    Example: countermand audit show chat-1a2b3c4d/t1
    """
    with read_log(_log(log)) as reader:
        leaves = reader.of_saga(saga)
    if not leaves:
        raise AuditError(f"the audit log knows no saga {saga!r}: `countermand audit export` lists them all")
    for leaf in leaves:
        receipt, entries = read_leaf(leaf)
        if as_json:
            said: list[JsonValue] = [entry.model_dump(mode="json") for entry in entries]
            say_json({"leaf": leaf.number, "receipt": receipt.model_dump(mode="json"), "entries": said})
        else:
            stdout().print(f"Receipt {receipt.n}, leaf {leaf.number}, {receipt.time:%Y-%m-%d %H:%M:%S}, {receipt.key}")
            for entry in entries:
                stdout().print(_in_words(entry), soft_wrap=True, markup=False)
    return 0


@audit.command
def export(*, log: LogPlace = None) -> int:
    """Write all receipts with their proofs, a JSON object a line; docs/verify_audit.py verifies them alone.

    Example: countermand audit export > audit.jsonl
    """
    with read_log(_log(log)) as reader:
        sys.stdout.writelines(line + "\n" for line in export_log(reader))
    return 0


@audit.command
def prove(saga: str, /, *, log: LogPlace = None) -> int:
    """Write one saga's receipts with their proofs, for an outsider who sees no other.

    Example: countermand audit prove chat-1a2b3c4d/t1 > proof.jsonl
    """
    with read_log(_log(log)) as reader:
        sys.stdout.writelines(line + "\n" for line in prove_saga(reader, saga))
    return 0


@audit.command
def forget(
    saga: str,
    /,
    *,
    salts: Annotated[str | None, Parameter(name="--salts", help="Path or database URL of the salts.")] = None,
    as_json: AsJson = False,
) -> int:
    """Delete a saga's salt: nobody can prove any more what its digests stand for; the log still verifies.

    Example: countermand audit forget chat-1a2b3c4d/t1
    """
    store = Salts(salts or Settings().state_folder / SALTS_FILE, create=False)
    try:
        if not store.forget(saga):
            raise AuditError(f"there is no salt of saga {saga!r}: it was forgotten before, or never was")
    finally:
        store.close()
    if as_json:
        say_json({"forgotten": saga})
    else:
        stdout().print(f"Forgotten: {saga}", markup=False)
    return 0


@audit.command
def trust(
    *,
    log: LogPlace = None,
    keys: KeysPlace = None,
    since: Annotated[int | None, Parameter(help="The first leaf that it signs; else the next one.")] = None,
    as_json: AsJson = False,
) -> int:
    """Trust the present signing key for what is appended from now on, and its forerunner for nothing more.

    To rotate: stop the workers, put the new key in place (COUNTERMAND_AUDIT_KEY or audit.key), trust it, start them.

    Example: countermand audit trust
    """
    folder = Settings().state_folder
    signer = load_signer(folder)
    with read_log(_log(log)) as reader:
        head = reader.head()
    first = since if since is not None else head.size if head else 0
    trust_key(keys or folder / KEYRING_FILE, signer, first)
    if as_json:
        say_json({"trusted": signer.key_id, "since": first})
    else:
        stdout().print(f"Trusted: {signer.key_id}")
    return 0


def check(
    log: str | None, *, heads: Path | None, keys: Path | None, temporal: Iterable[tuple[str, SagaState]] = ()
) -> Verification:
    """Verify a log (None: the embedded one, with its own heads), and compare it with the sagas that Temporal closed."""
    folder = Settings().state_folder
    own_heads = folder / HEADS_FILE
    if heads is None and log is None and own_heads.exists():
        heads = own_heads
    ring = read_keyring(keys or folder / KEYRING_FILE)
    # Read before the log: a writer publishes after it appends, so the log holds at least what was published by now.
    known = published(heads) if heads else ()
    with read_log(_log(log)) as reader:
        checked = verify_log(reader, ring, known)
    return checked.model_copy(update={"findings": (*checked.findings, *reconcile(checked.closed, temporal))})


async def _known_to_temporal() -> list[tuple[str, SagaState]]:
    async with client_of_servers() as client:
        return await final_states(client)


def _log(place: str | None) -> str | Path:
    return place or Settings().state_folder / LOG_FILE


def _answer(checked: Verification, *, as_json: bool) -> None:
    if as_json:
        findings: list[JsonValue] = [
            {**found.model_dump(mode="json", exclude_none=True), "place": found.place} for found in checked.findings
        ]
        answer: JsonObject = checked.model_dump(mode="json", exclude={"closed", "findings"})
        say_json({"ok": checked.ok, **answer, "findings": findings})
        return
    console = stdout()
    for found in checked.findings:
        console.print(f"{found.kind}: {found.place}: {found.message}", style="red", soft_wrap=True, markup=False)
    for key in checked.development_keys:
        console.print(f"Signed by {key}: a development key proves nothing to others.", style="yellow")
    verdict = "Verified" if checked.ok else f"{len(checked.findings)} findings"
    console.print(f"{verdict}: {checked.receipts} receipts, root {checked.root}", soft_wrap=True)


def _in_words(entry: Entry) -> str:
    said = entry.model_dump(mode="json", exclude={"seq", "time", "actor", "kind"}, exclude_none=True)
    details = " ".join(f"{name}={value}" for name, value in said.items())
    return f"{entry.seq:3} {entry.time:%H:%M:%S} {entry.actor} {entry.kind} {details}"
