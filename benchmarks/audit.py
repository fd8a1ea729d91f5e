"""The audit log as it grows: the time of an append, of a verification, and the size of a proof.

    python benchmarks/audit.py --quick

Every receipt is of one order of three tool calls (eleven entries), on SQLite, synced to disk at every commit.
"""

import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from countermand.saga.audit.entries import (
    CloseEntry,
    DecisionEntry,
    Entry,
    OutcomeEntry,
    StepEntry,
    VerdictEntry,
    digest,
)
from countermand.saga.audit.heads import published
from countermand.saga.audit.keys import KEYRING_FILE, create_development_key, read_keyring
from countermand.saga.audit.log import HEADS_FILE, LOG_FILE, AuditLog
from countermand.saga.audit.reader import read_log
from countermand.saga.audit.verify import verify
from countermand.saga.types import Effect, Frozen, Outcome, SagaState

SIZES = (100, 1_000, 10_000, 100_000)
QUICK_SIZES = SIZES[:2]
SAMPLES = 100

app = App(help="Measure the audit log at 100, 1,000, 10,000 and 100,000 receipts (some five minutes).")


class Row(Frozen):
    """One size's figures; times of appends are of the last hundred before the size was reached."""

    receipts: int
    append_p50_ms: float
    append_p95_ms: float
    verify_s: float
    proof_hashes: int
    log_mb: float


@app.default
def main(
    *,
    quick: Annotated[bool, Parameter(negative="", help="Up to 1,000 receipts only (some seconds).")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="One JSON object a size.")] = False,
) -> None:
    """Grow one log and measure it at each size."""
    with tempfile.TemporaryDirectory(prefix="countermand-bench-") as folder:
        rows = measure(Path(folder), QUICK_SIZES if quick else SIZES)
    if as_json:
        for row in rows:
            print(row.model_dump_json())
        return
    table = Table(*Row.model_fields, title="Audit log on SQLite")
    for row in rows:
        table.add_row(*(f"{value:,}" for value in row.model_dump().values()))
    Console().print(table)


def measure(folder: Path, sizes: tuple[int, ...]) -> list[Row]:
    create_development_key(folder)
    rows: list[Row] = []
    with closing(AuditLog.in_folder(folder)) as log:
        times: list[float] = []
        for size in sizes:
            while len(times) < size:
                saga_id = f"order-{len(times)}/t1"
                entries = order(saga_id)
                began = time.perf_counter()
                log.append(saga_id, entries)
                times.append(time.perf_counter() - began)
            rows.append(row_at(folder, times))
    return rows


def row_at(folder: Path, times: list[float]) -> Row:
    size = len(times)
    last = [each * 1000 for each in times[-SAMPLES:]]
    began = time.perf_counter()
    with read_log(folder / LOG_FILE) as reader:
        found = verify(reader, read_keyring(folder / KEYRING_FILE), published(folder / HEADS_FILE))
        took = time.perf_counter() - began
        if not found.ok:
            raise SystemExit(f"the log does not verify: {found.findings[0].message}")
        proof = reader.inclusion(size // 3, size)
    return Row(
        receipts=size,
        append_p50_ms=round(median(last), 2),
        append_p95_ms=round(quantiles(last, n=20)[-1], 2),
        verify_s=round(took, 2),
        proof_hashes=len(proof),
        log_mb=round((folder / LOG_FILE).stat().st_size / 1e6, 1),
    )


def order(saga_id: str) -> list[Entry]:
    """An order of three tool calls, each judged by the guard, and the end."""
    now = datetime.now(UTC)
    entries: list[Entry] = [
        DecisionEntry(seq=1, time=now, actor="agent:order", model="stub", prompt=digest(f"order {saga_id}"))
    ]
    for no, tool in enumerate(("authorize_payment", "reserve_stock", "provision_cluster"), start=1):
        key, args = f"{saga_id}:{no}", digest({"saga": saga_id, "tool": tool})
        seq = len(entries) + 1
        entries += [
            VerdictEntry(
                seq=seq, time=now, actor="guard", step_no=no, tool=tool, args=args, rule="allowlist", verdict="allowed"
            ),
            StepEntry(
                seq=seq + 1,
                time=now,
                actor="executor",
                step_no=no,
                key=key,
                tool=tool,
                effect=Effect.COMPENSABLE,
                args=args,
            ),
            OutcomeEntry(
                seq=seq + 2, time=now, actor="executor", step_no=no, key=key, outcome=Outcome.DONE, result=args
            ),
        ]
    return [*entries, CloseEntry(seq=len(entries) + 1, time=now, actor="executor", state=SagaState.COMMITTED)]


if __name__ == "__main__":
    app()
