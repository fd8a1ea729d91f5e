"""A process that appends: FOLDER of the key, LOG, SALTS, PREFIX and COUNT; all its appends run at once."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from countermand.saga.audit.entries import CloseEntry
from countermand.saga.audit.keys import load_signer
from countermand.saga.audit.log import AuditLog
from countermand.saga.audit.salts import Salts
from countermand.saga.types import SagaState

folder, where, salts, prefix, count = sys.argv[1:]
log = AuditLog(where, salts=Salts(salts), signer=load_signer(Path(folder)), heads=Path(folder) / "audit-heads.jsonl")


def append(saga_id: str) -> str:
    end = CloseEntry(seq=1, time=datetime(2026, 11, 2, tzinfo=UTC), actor="executor", state=SagaState.COMMITTED)
    return log.append(saga_id, [end]).signature


names = [*(f"{prefix}{number}" for number in range(int(count))), "shared"]
with ThreadPoolExecutor(len(names)) as pool:
    signatures = list(pool.map(append, names))
sys.stdout.write(signatures[-1])
log.close()
