"""Who signs the audit, and which public keys a verifier trusts for which part of the log."""

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from pydantic import Field, ValidationError

from countermand.saga.audit.errors import AuditError
from countermand.saga.types import Frozen

KEY_VARIABLE = "COUNTERMAND_AUDIT_KEY"
KEY_FILE = "audit.key"
KEYRING_FILE = "audit-keys.json"

_DEVELOPMENT_NOTE = b"Countermand audit, development key: made by itself, guarded by nobody. Not for production.\n"


class Signer(Protocol):
    """Signs with Ed25519 (RFC 8032). A KMS implements it by its own call."""

    @property
    def key_id(self) -> str:
        """The id that receipts and heads name; ``key_id`` of the public key."""
        ...

    @property
    def public(self) -> bytes:
        """The raw public key, 32 bytes."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes."""
        ...


def key_id(public: bytes, *, development: bool = False) -> str:
    """A key's id: the head of its SHA-256, so that one id never means two keys; a development key says so."""
    return ("development-" if development else "ed25519-") + hashlib.sha256(public).hexdigest()[:16]


class LocalSigner:
    """A private key held in this process."""

    def __init__(self, private: Ed25519PrivateKey, *, development: bool = False) -> None:
        self._private = private
        self.public = private.public_key().public_bytes_raw()
        self.key_id = key_id(self.public, development=development)

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes."""
        return self._private.sign(data)


class TrustedKey(Frozen):
    """A public key and the leaves that it may have signed: from ``since``, up to and not including ``until``."""

    id: str
    public: str = Field(description="Base64 of the raw 32 bytes.")
    since: int = Field(default=0, ge=0)
    until: int | None = Field(default=None, ge=0)

    def signed(self, data: bytes, signature: str) -> bool:
        """Whether the signature (base64) is this key's."""
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(self.public))
            key.verify(base64.b64decode(signature), data)
        except (InvalidSignature, ValueError):
            return False
        return True

    def holds_for(self, leaf: int) -> bool:
        """Whether the key was in use when the leaf was appended."""
        return self.since <= leaf and (self.until is None or leaf < self.until)


class Keyring(Frozen):
    """All public keys that ever signed the log. It is what a verifier trusts: keep it where the log's writers can't."""

    keys: tuple[TrustedKey, ...] = ()

    def find(self, wanted: str) -> TrustedKey | None:
        """The key of that id."""
        return next((key for key in self.keys if key.id == wanted), None)

    def rotated_to(self, signer: Signer, size: int) -> "Keyring":
        """The ring in which ``signer`` signs from leaf ``size`` on, and no other does.

        Raises:
            AuditError: The key was retired; what it signs now could not be told from what it signed then.
        """
        known = self.find(signer.key_id)
        if known is not None and known.until is None:
            return self
        if known is not None:
            raise AuditError(f"{known.id} was retired at leaf {known.until}: sign with a new key")
        kept = (key if key.until is not None else key.model_copy(update={"until": size}) for key in self.keys)
        public = base64.b64encode(signer.public).decode()
        return Keyring(keys=(*kept, TrustedKey(id=signer.key_id, public=public, since=size)))


def load_signer(folder: Path, environment: Mapping[str, str] = os.environ) -> LocalSigner:
    """The signing key from ``COUNTERMAND_AUDIT_KEY`` (PEM), or else from the folder's ``audit.key``.

    Raises:
        AuditError: There is none, or it is no Ed25519 key in PEM.
    """
    pem = environment.get(KEY_VARIABLE, "").encode()
    source = KEY_VARIABLE
    if not pem:
        path = folder / KEY_FILE
        source = str(path)
        if not path.exists():
            raise AuditError(f"no audit key: set {KEY_VARIABLE} to an Ed25519 key in PEM, or put one at {path}")
        pem = path.read_bytes()
    try:
        private = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise AuditError(f"{source}: no private key in PEM without a password: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise AuditError(f"{source}: the audit signs with Ed25519; make a key by: openssl genpkey -algorithm ed25519")
    return LocalSigner(private, development=pem.startswith(_DEVELOPMENT_NOTE))


def create_development_key(folder: Path, size: int = 0) -> LocalSigner:
    """Make a key for development in the folder, and trust it from leaf ``size`` on; only the owner may read it.

    Raises:
        AuditError: The folder has a key already.
    """
    private = Ed25519PrivateKey.generate()
    path = folder / KEY_FILE
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise AuditError(f"{path} exists: move it away first, old keys stay in {KEYRING_FILE}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(_DEVELOPMENT_NOTE + private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    signer = LocalSigner(private, development=True)
    trust(folder / KEYRING_FILE, signer, size)
    return signer


def trust(path: Path, signer: Signer, size: int) -> Keyring:
    """Write the signer into the keyring at ``path`` as the one that signs from leaf ``size`` on."""
    ring = (read_keyring(path) if path.exists() else Keyring()).rotated_to(signer, size)
    fresh = path.with_suffix(".new")
    fresh.write_text(ring.model_dump_json(indent=2) + "\n")
    fresh.replace(path)
    return ring


def read_keyring(path: Path) -> Keyring:
    """The public keys that a file trusts.

    Raises:
        AuditError: There is no such file, or it is no keyring.
    """
    try:
        return Keyring.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise AuditError(f"no keyring at {path}: `countermand audit trust` writes the one that signs") from error
    except ValidationError as error:
        raise AuditError(f"{path}: no keyring: {error.errors()[0]['msg']}") from error
