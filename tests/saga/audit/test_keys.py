"""Signing keys: from a file or the environment, a development key that says so, rotation."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from countermand.saga.audit.errors import AuditError
from countermand.saga.audit.keys import (
    KEY_FILE,
    KEY_VARIABLE,
    KEYRING_FILE,
    LocalSigner,
    create_development_key,
    key_id,
    load_signer,
    read_keyring,
    trust,
)


def pem(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_a_development_key_says_that_it_is_one_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    made = create_development_key(tmp_path / "state")
    path = tmp_path / "state" / KEY_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "development key" in path.read_text().splitlines()[0]
    assert made.key_id.startswith("development-")
    assert load_signer(tmp_path / "state", {}).key_id == made.key_id


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    made = create_development_key(tmp_path)
    with pytest.raises(AuditError, match="exists: move it away first"):
        create_development_key(tmp_path)
    assert load_signer(tmp_path, {}).public == made.public


def test_the_environments_key_goes_before_the_folders(tmp_path: Path) -> None:
    create_development_key(tmp_path)
    private = Ed25519PrivateKey.generate()
    signer = load_signer(tmp_path, {KEY_VARIABLE: pem(private)})
    assert signer.public == private.public_key().public_bytes_raw()
    assert signer.key_id == key_id(signer.public)
    assert signer.key_id.startswith("ed25519-")


def test_what_is_no_key_is_refused_in_one_line_that_does_not_quote_it(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=f"no audit key: set {KEY_VARIABLE}"):
        load_signer(tmp_path, {})
    with pytest.raises(AuditError, match="no private key in PEM") as error:
        load_signer(tmp_path, {KEY_VARIABLE: "hunter2"})
    assert "hunter2" not in str(error.value)
    curve = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(AuditError, match="signs with Ed25519"):
        load_signer(tmp_path, {KEY_VARIABLE: curve.decode()})


def test_a_rotation_ends_the_old_keys_leaves_where_the_new_ones_begin(tmp_path: Path) -> None:
    old, new = LocalSigner(Ed25519PrivateKey.generate()), LocalSigner(Ed25519PrivateKey.generate())
    path = tmp_path / KEYRING_FILE
    trust(path, old, 0)
    ring = trust(path, new, 7)
    assert ring == read_keyring(path)
    assert [(key.id, key.since, key.until) for key in ring.keys] == [(old.key_id, 0, 7), (new.key_id, 7, None)]
    first, second = ring.keys
    assert [first.holds_for(6), first.holds_for(7), second.holds_for(6), second.holds_for(7)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_keyring_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="no keyring at"):
        read_keyring(tmp_path / KEYRING_FILE)
    (tmp_path / KEYRING_FILE).write_text("[]")
    with pytest.raises(AuditError, match="no keyring:"):
        read_keyring(tmp_path / KEYRING_FILE)
