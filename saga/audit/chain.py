"""From entries to a receipt: salted, canonical, chained, signed."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

import rfc8785
from pydantic import AwareDatetime, BaseModel, Field

from countermand.saga.audit.entries import Entry
from countermand.saga.audit.keys import Signer
from countermand.saga.types import Frozen

SignatureText = str
"""Base64 of an Ed25519 signature over the canonical JSON of all other fields."""


class Signed(Frozen):
    """A statement signed by a key; the type is part of what is signed, so that none passes for another."""

    time: AwareDatetime
    key: str
    signature: SignatureText = ""

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        return rfc8785.dumps(self.model_dump(mode="json", exclude={"signature"}))


class Receipt(Signed):
    """Signed proof of a saga's entries: ``n`` counts a saga's receipts from 1, later ones are amendments.

    ``digests`` holds the SHA-256 of each entry's record, so that a verifier can name the entry that was touched, and
    a holder can show one entry without the others. ``head`` is the chain over them. Hashes are in hexadecimal.
    """

    type: Literal["countermand.receipt/1"] = "countermand.receipt/1"
    saga: str
    n: int = Field(ge=1)
    previous: str | None = Field(description="The hash of the saga's receipt before this one.")
    digests: tuple[str, ...]
    head: str


class TreeHead(Signed):
    """The Merkle log at one size (RFC 6962, 3.5)."""

    type: Literal["countermand.head/1"] = "countermand.head/1"
    size: int = Field(ge=1)
    root: str


def record(entry: Entry, salt: bytes) -> bytes:
    """An entry as the log keeps it: salted, in canonical JSON."""
    return rfc8785.dumps(entry.model_dump(mode="json", context=salt))


def sha256(data: bytes) -> str:
    """The hash in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def canonical(model: BaseModel) -> bytes:
    """A model in canonical JSON; of a receipt, it is the leaf's data."""
    return rfc8785.dumps(model.model_dump(mode="json"))


def content_hash(digests: Iterable[str]) -> str:
    """What tells one receipt's content from another's within a saga."""
    return sha256("".join(digests).encode())


def chain_head(saga_id: str, n: int, previous: str | None, digests: Iterable[str]) -> str:
    """The head of the hash chain that starts from the receipt's place and takes in one digest after the other."""
    head = hashlib.sha256(rfc8785.dumps({"saga": saga_id, "n": n, "previous": previous})).digest()
    for digest in digests:
        head = hashlib.sha256(head + bytes.fromhex(digest)).digest()
    return head.hex()


def seal_receipt(
    saga_id: str, n: int, previous: str | None, digests: Sequence[str], *, time: AwareDatetime, signer: Signer
) -> Receipt:
    """The signed receipt of records with these digests."""
    head = chain_head(saga_id, n, previous, digests)
    unsigned = Receipt(
        saga=saga_id, n=n, previous=previous, digests=tuple(digests), head=head, time=time, key=signer.key_id
    )
    return unsigned.model_copy(update={"signature": _signature(unsigned, signer)})


def seal_head(size: int, root: bytes, *, time: AwareDatetime, signer: Signer) -> TreeHead:
    """The signed head of the log at a size."""
    unsigned = TreeHead(size=size, root=root.hex(), time=time, key=signer.key_id)
    return unsigned.model_copy(update={"signature": _signature(unsigned, signer)})


def _signature(statement: Signed, signer: Signer) -> SignatureText:
    return base64.b64encode(signer.sign(statement.signed_bytes())).decode()
