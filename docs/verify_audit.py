"""Verify an audit export without Countermand: only the standard library and ``cryptography``.

    countermand audit export > audit.jsonl
    python verify_audit.py audit.jsonl audit-keys.json

Exits with 0 when everything holds, with 1 when something does not, with 2 when it was called wrongly.
"""

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Json = dict[str, Any]
Place = tuple[int, str]


def canonical(value: Json) -> bytes:
    """RFC 8785, as far as the audit needs it: its names are ASCII and its numbers small integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def signature_holds(statement: Json, leaf: int, keys: dict[str, Json]) -> bool:
    """Whether a trusted key, in use when the leaf was appended, signed all the statement's other fields."""
    key = keys.get(statement["key"])
    if key is None or leaf < key["since"] or (key["until"] is not None and leaf >= key["until"]):
        return False
    signed = canonical({name: value for name, value in statement.items() if name != "signature"})
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key["public"]))
        public.verify(base64.b64decode(statement["signature"]), signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def chain_head(receipt: Json) -> str:
    """Each link hashes the link before and the digest of an entry."""
    link = sha256(canonical({name: receipt[name] for name in ("saga", "n", "previous")}))
    for digest in receipt["digests"]:
        link = sha256(link + bytes.fromhex(digest))
    return link.hex()


def root_from(leaf_hash: bytes, leaf: int, size: int, proof: list[str]) -> str | None:
    """The root that an inclusion proof leads to (RFC 9162, 2.1.3.2); None when the proof has the wrong length."""
    last, current = size - 1, leaf_hash
    for sibling in map(bytes.fromhex, proof):
        if last == 0:
            return None
        if leaf & 1 or leaf == last:
            current = sha256(b"\x01" + sibling + current)
            while not leaf & 1 and leaf:
                leaf, last = leaf >> 1, last >> 1
        else:
            current = sha256(b"\x01" + current + sibling)
        leaf, last = leaf >> 1, last >> 1
    return current.hex() if last == 0 else None


def faults_of(line: Json, head: Json, keys: dict[str, Json], previous: dict[str, Place]) -> Iterator[str]:
    """What is wrong with one exported leaf."""
    receipt, leaf = line["receipt"], line["leaf"]
    if root_from(sha256(b"\x00" + canonical(receipt)), leaf, head["size"], line["proof"]) != head["root"]:
        yield "the receipt is not in the log that the head signs"
    if not signature_holds(receipt, leaf, keys):
        yield "the receipt's signature does not hold"
    if [sha256(canonical(entry)).hex() for entry in line["entries"]] != receipt["digests"]:
        yield "the entries are not those that were signed"
    if chain_head(receipt) != receipt["head"]:
        yield "the chain does not end in the receipt's head"
    if (receipt["n"], receipt["previous"]) != previous.get(receipt["saga"], (1, None)):
        yield "the receipt does not follow the saga's receipt before it"


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify an audit export.")
    parser.add_argument("export", type=Path, help="what `countermand audit export` or `prove` wrote")
    parser.add_argument("keyring", type=Path, help="the public keys that you trust, audit-keys.json")
    asked = parser.parse_args()
    keys = {key["id"]: key for key in json.loads(asked.keyring.read_text())["keys"]}
    first, *rest = asked.export.read_text().splitlines()
    head = json.loads(first)["head"]
    faults = [] if signature_holds(head, head["size"] - 1, keys) else ["the head's signature does not hold"]
    previous: dict[str, Place] = {}
    leaves: set[int] = set()
    for number, text in enumerate(rest, start=2):
        line = json.loads(text)
        receipt = line["receipt"]
        place = f"line {number}, saga {receipt['saga']}, receipt {receipt['n']}"
        faults += [f"{place}: {fault}" for fault in faults_of(line, head, keys, previous)]
        previous[receipt["saga"]] = receipt["n"] + 1, sha256(canonical(receipt)).hex()
        leaves.add(line["leaf"])
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{len(leaves)} of the log's {head['size']} receipts, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
