"""``countermand audit``: exit codes, findings with their places, JSON, errors in one line."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from countermand.cli.audit import check
from countermand.cli.main import run
from countermand.saga.audit.keys import KEY_VARIABLE, KEYRING_FILE, create_development_key, read_keyring
from countermand.saga.audit.log import AuditLog
from countermand.saga.types import SagaState

from .conftest import Trail, order

Said = Callable[[], tuple[str, str]]
EDIT = "update audit_entries set body = replace(body, 'committed', 'compensated') where leaf = 4 and seq = 6"


@pytest.fixture
def embedded(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> Trail:
    """The trail as the embedded log."""
    monkeypatch.setenv("COUNTERMAND_STATE_FOLDER", str(trail.folder))
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return trail


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def read() -> tuple[str, str]:
        captured = capsys.readouterr()
        return captured.out, captured.err

    return read


@pytest.mark.usefixtures("embedded")
def test_a_sound_log_verifies_with_exit_code_0_and_says_that_its_key_is_for_development(said: Said) -> None:
    assert run(["audit", "verify"]) == 0
    out, err = said()
    assert "Verified: 11 receipts" in out
    assert "Signed by development-" in out
    assert err == ""


def test_a_finding_is_named_with_its_place_and_gives_exit_code_1(embedded: Trail, said: Said) -> None:
    embedded.tamper(EDIT)
    assert run(["audit", "verify"]) == 1
    assert "entry_edited: saga s4, receipt 1, entry 6, leaf 4: the entry is not the one that was signed" in said()[0]


def test_a_verification_in_json_says_what_the_text_says(embedded: Trail, said: Said) -> None:
    embedded.tamper(EDIT)
    assert run(["audit", "verify", "--json"]) == 1
    answer = json.loads(said()[0])
    assert (answer["ok"], answer["receipts"], answer["size"]) == (False, 11, 11)
    assert [(found["kind"], found["saga"], found["entry"]) for found in answer["findings"]] == [
        ("entry_edited", "s4", 6)
    ]


def test_a_log_elsewhere_is_verified_against_the_heads_and_keys_given(
    embedded: Trail, tmp_path: Path, said: Said
) -> None:
    elsewhere = tmp_path / "backup.db"
    shutil.copy(embedded.path, elsewhere)
    embedded.append("later", order("later"))
    keys = str(embedded.folder / KEYRING_FILE)
    heads = str(embedded.folder / "audit-heads.jsonl")
    assert run(["audit", "verify", "--log", str(elsewhere), "--keys", keys]) == 0
    assert run(["audit", "verify", "--log", str(elsewhere), "--keys", keys, "--head", heads]) == 1
    assert "rolled_back: leaf 11: the log holds 11 receipts, but 12 were published" in said()[0]


@pytest.mark.usefixtures("embedded")
def test_the_sagas_that_temporal_closed_are_compared() -> None:
    checked = check(None, heads=None, keys=None, temporal=[("s1", SagaState.COMMITTED), ("lost", SagaState.COMMITTED)])
    assert [(found.kind.value, found.place) for found in checked.findings] == [("absent_from_log", "saga lost")]


@pytest.mark.usefixtures("embedded")
def test_a_saga_is_shown_entry_by_entry(said: Said) -> None:
    assert run(["audit", "show", "s3"]) == 0
    out, _ = said()
    assert "Receipt 1, leaf 3" in out
    assert "guard verdict step_no=1 tool=authorize" in out
    assert "operator:grace residual" in out
    assert run(["audit", "show", "s3", "--json"]) == 0
    receipts = [json.loads(line) for line in said()[0].splitlines()]
    assert [(each["receipt"]["n"], len(each["entries"])) for each in receipts] == [(1, 6), (2, 1)]


def test_an_export_and_a_proof_are_json_lines_that_the_independent_verifier_accepts(
    embedded: Trail, said: Said
) -> None:
    verifier = Path(__file__).parents[3] / "docs" / "verify_audit.py"
    for command, lines in ((["export"], 12), (["prove", "s3"], 3)):
        assert run(["audit", *command]) == 0
        file = embedded.folder / "out.jsonl"
        file.write_text(said()[0])
        assert len(file.read_text().splitlines()) == lines
        subprocess.run([sys.executable, str(verifier), str(file), str(embedded.folder / KEYRING_FILE)], check=True)


@pytest.mark.usefixtures("embedded")
def test_a_saga_is_forgotten_once_and_the_log_still_verifies(said: Said) -> None:
    assert run(["audit", "forget", "s3"]) == 0
    assert run(["audit", "forget", "s3"]) == 1
    assert "error: there is no salt of saga 's3'" in said()[1]
    assert run(["audit", "verify"]) == 0


def test_a_rotated_key_is_trusted_from_its_first_leaf_on(
    embedded: Trail, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    monkeypatch.setenv(KEY_VARIABLE, private.decode())
    embedded.append("untrusted", order("untrusted"))
    assert run(["audit", "verify"]) == 1
    assert "unknown_key: saga untrusted, receipt 1, leaf 11" in said()[0]
    assert run(["audit", "trust", "--since", "11"]) == 0
    embedded.append("trusted", order("trusted"))
    assert run(["audit", "trust"]) == 0, "again changes nothing"
    assert run(["audit", "verify"]) == 0
    old, new = read_keyring(embedded.folder / KEYRING_FILE).keys
    assert (old.until, new.since, new.until) == (11, 11, None)
    monkeypatch.delenv(KEY_VARIABLE)
    assert run(["audit", "trust"]) == 1
    assert "was retired at leaf 11: sign with a new key" in said()[1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["verify", "--log", "nowhere.db"], 1, "there is no"),
        (["verify", "--keys", "nowhere.json"], 1, "no keyring at nowhere.json"),
        (["verify", "--head", "nowhere.jsonl"], 1, "nowhere.jsonl: No such file or directory"),
        (["verify", "--log", "oracle://x"], 1, "driver is missing"),
        (["forget", "nobody", "--salts", "nowhere.db"], 1, "there is no"),
        (["show", "nobody"], 1, "knows no saga 'nobody'"),
        (["prove", "nobody"], 1, "knows no saga 'nobody'"),
        (["verify", "--logg", "x"], 2, "--logg"),
        (["show"], 2, "saga"),
    ],
)
@pytest.mark.usefixtures("embedded")
def test_a_mistake_is_told_in_one_line_with_its_exit_code(
    arguments: list[str], code: int, message: str, said: Said
) -> None:
    assert run(["audit", *arguments]) == code
    out, err = said()
    assert out == ""
    assert message.lower() in err.lower()
    assert len(err.splitlines()) == 1


def test_what_is_no_log_is_told_in_one_line(embedded: Trail, said: Said) -> None:
    other = embedded.folder / "other.db"
    other.write_text("this is no database, but long enough to be looked into" * 100)
    assert run(["audit", "verify", "--log", str(other)]) == 1
    assert run(["audit", "verify", "--log", str(embedded.folder / "audit-salts.db")]) == 1
    first, second = said()[1].splitlines()
    assert "file is not a database" in first
    assert "cannot be read as an audit log: no such table" in second


def test_an_empty_log_verifies_and_exports_nothing(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERMAND_STATE_FOLDER", str(tmp_path))
    create_development_key(tmp_path)
    AuditLog.in_folder(tmp_path).close()
    assert run(["audit", "verify"]) == 0
    assert run(["audit", "export"]) == 1
    assert "the audit log is empty" in said()[1]


@pytest.mark.parametrize("command", [[], ["verify"], ["show"], ["export"], ["prove"], ["forget"], ["trust"]])
def test_every_help_has_an_example(command: list[str], said: Said) -> None:
    assert run(["audit", *command, "--help"]) == 0
    assert "Example: countermand audit" in " ".join(said()[0].split())
