"""Appending: idempotent by saga and content, amendments chained, many writers at once on both databases."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from countermand.saga.audit.chain import sha256
from countermand.saga.audit.database import SaltTables, open_database
from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.heads import published
from countermand.saga.audit.keys import KEYRING_FILE, create_development_key, load_signer, read_keyring
from countermand.saga.audit.log import HEADS_FILE, LOG_FILE, SALTS_FILE, AuditLog
from countermand.saga.audit.merkle import verify_consistency
from countermand.saga.audit.reader import read_log
from countermand.saga.audit.salts import Salts
from countermand.saga.audit.verify import verify

from .conftest import Trail, done_by_hand, order

WRITER = Path(__file__).with_name("writer.py")


def test_workers_that_begin_at_once_open_one_log(tmp_path: Path) -> None:
    at_once = threading.Barrier(8)

    def begin(number: int) -> None:
        at_once.wait()
        open_database(tmp_path / str(number) / SALTS_FILE, SaltTables, create=True).dispose()

    with ThreadPoolExecutor(at_once.parties) as workers:
        for number in range(100):
            for begun in [workers.submit(begin, number) for _ in range(at_once.parties)]:
                begun.result()


def test_the_same_entries_again_give_the_same_receipt(trail: Trail) -> None:
    first = trail.append("again", order("again"))
    assert trail.append("again", order("again")) == first
    assert trail.verify().receipts == 12


def test_other_entries_of_a_saga_amend_it_by_a_receipt_that_names_the_one_before(trail: Trail) -> None:
    first = trail.append("amended", order("amended"))
    second = trail.append("amended", done_by_hand("amended"))
    third = trail.append("amended", done_by_hand("amended", operator="jean"))
    assert [first.n, second.n, third.n] == [1, 2, 3]
    with read_log(trail.path) as reader:
        bodies = [leaf.receipt.body for leaf in reader.of_saga("amended") if leaf.receipt]
    assert [None, *(sha256(body.encode()) for body in bodies[:2])] == [first.previous, second.previous, third.previous]
    assert trail.append("amended", done_by_hand("amended")) == second, "also when later ones stand"
    assert trail.verify(with_heads=True).ok


def test_entries_that_are_not_numbered_from_one_are_refused_and_leave_nothing(trail: Trail) -> None:
    with pytest.raises(ValidationError, match="entry 1 of saga 'odd' says seq 2"):
        trail.append("odd", order("odd")[1:])
    with pytest.raises(ValidationError, match="at least 1 item"):
        trail.append("odd", [])
    assert trail.verify().receipts == 11


def test_every_append_publishes_a_head_that_is_proven_a_prefix_of_the_last(trail: Trail) -> None:
    heads = published(trail.folder / HEADS_FILE)
    assert [head.size for head in heads] == list(range(1, 12))
    last = heads[-1]
    with read_log(trail.path) as reader:
        assert reader.head() == last
        for head in heads:
            roots = bytes.fromhex(head.root), bytes.fromhex(last.root)
            proof = reader.consistency(head.size, last.size)
            assert verify_consistency(head.size, roots[0], last.size, roots[1], proof)


def test_a_log_that_lost_a_part_of_its_tree_refuses_to_go_on(trail: Trail) -> None:
    trail.tamper("delete from audit_nodes where level = 3")
    with pytest.raises(AuditError, match=r"lacks its node \(3, 0\): run `countermand audit verify`"):
        trail.append("next", order("next"))
    assert trail.verify().receipts == 11


def test_a_log_that_is_not_there_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="there is no"), read_log(tmp_path / "none.db"):
        pass
    assert not (tmp_path / "none.db").exists()


def append_from_four_processes(folder: Path, log: str, salts: str) -> None:
    """Fifty sagas, and one that all four append."""
    shares = {"a": 13, "b": 13, "c": 12, "d": 12}
    writers = [
        subprocess.Popen(
            [sys.executable, str(WRITER), str(folder), log, salts, prefix, str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for prefix, count in shares.items()
    ]
    answers = [writer.communicate(timeout=60) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0], answers
    assert len({shared for shared, _ in answers}) == 1, "all four were given one receipt"
    with read_log(log) as reader:
        found = verify(reader, read_keyring(folder / KEYRING_FILE), published(folder / HEADS_FILE))
    assert found.findings == ()
    assert (found.receipts, found.size, len(found.closed)) == (51, 51, 51)


def test_fifty_concurrent_appends_from_four_processes_make_one_log_on_sqlite(tmp_path: Path) -> None:
    create_development_key(tmp_path)
    append_from_four_processes(tmp_path, str(tmp_path / LOG_FILE), str(tmp_path / SALTS_FILE))


def test_fifty_concurrent_appends_from_four_processes_make_one_log_on_postgresql(
    tmp_path: Path, postgresql: str
) -> None:
    create_development_key(tmp_path)
    append_from_four_processes(tmp_path, postgresql, postgresql)


def test_the_log_on_postgresql_forgets_and_amends_as_on_sqlite(tmp_path: Path, postgresql: str) -> None:
    signer = create_development_key(tmp_path)
    with closing(AuditLog(postgresql, salts=Salts(postgresql), signer=signer)) as log:
        first = log.append("pg", order("pg"))
        assert log.append("pg", order("pg")) == first
        assert log.append("pg", done_by_hand("pg")).previous is not None
    with closing(Salts(postgresql)) as salts:
        assert salts.forget("pg")
        assert salts.find("pg") is None


def test_a_database_that_does_not_answer_is_named_in_one_line(tmp_path: Path) -> None:
    create_development_key(tmp_path)
    unused = f"postgresql+psycopg://audit:hunter2@127.0.0.1:{free_port()}/none"
    with pytest.raises(AuditError, match="cannot be opened") as error:
        AuditLog(unused, salts=Salts(tmp_path / SALTS_FILE), signer=load_signer(tmp_path))
    assert "\n" not in str(error.value)
    assert "hunter2" not in str(error.value)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def postgres_program(name: str) -> str:
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(installed[-1]) if installed else shutil.which(name)
    if found is None:
        pytest.fail(f"the program {name!r} is missing: Debian has it in the package postgresql")
    return found


@pytest.fixture
def postgresql() -> Iterator[str]:
    """A PostgreSQL cluster of the test's own on loopback; as user postgres, since the server refuses root."""
    initdb, control = postgres_program("initdb"), postgres_program("pg_ctl")
    root = os.geteuid() == 0
    prefix = ["runuser", "-u", "postgres", "--"] if root else []
    # Not pytest's folder: the user postgres may not look into it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if root:
            shutil.chown(folder, "postgres")
        user = "postgres" if root else pwd.getpwuid(os.geteuid()).pw_name
        port, data = free_port(), f"{folder}/data"
        subprocess.run([*prefix, initdb, "-D", data, "-A", "trust", "--no-sync"], check=True, capture_output=True)
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='' -c fsync=off"
        start = [*prefix, control, "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start"]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
        try:
            yield f"postgresql+psycopg://{user}@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*prefix, control, "-D", data, "-m", "immediate", "stop"], check=True, capture_output=True)
