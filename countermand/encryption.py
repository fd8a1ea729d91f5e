"""Encryption of all that Temporal and Redis keep: a payload codec and a cipher with one key, set by whoever runs it."""

import base64
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec
from typing_extensions import override

from countermand.cache.encoding import Cipher
from countermand.saga.errors import CountermandError

KEY_VARIABLE = "COUNTERMAND_PAYLOAD_KEY"
KEY_FILE = "payload.key"

_ENCODING = b"binary/encrypted"
_KEY_BYTES = 32
_NONCE_BYTES = 12


class EncryptionError(CountermandError):
    """A key can't be used, or what is stored was encrypted with another one."""


class AesGcm:
    """AES-256-GCM (NIST SP 800-38D) with a random nonce before each ciphertext: a ``Cipher``.

    Args:
        keys: 32 bytes each. The first encrypts; all decrypt, so that a key can be changed.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [AESGCM(key) for key in keys]

    def encrypt(self, data: bytes, /) -> bytes:
        """Encrypt and authenticate."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._keys[0].encrypt(nonce, data, None)

    def decrypt(self, data: bytes, /) -> bytes:
        """Decrypt. Raises ``EncryptionError`` where no key fits."""
        for key in self._keys:
            try:
                return key.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], None)
            except (InvalidTag, ValueError):
                continue
        raise EncryptionError(f"what is stored was encrypted with another key: add that key to {KEY_VARIABLE}")


class EncryptingCodec(PayloadCodec):
    """Encrypts payloads whole; what was stored before there was a key is read as it is.

    Args:
        cipher: If None, nothing is encrypted, and ``decode`` raises ``EncryptionError`` for what is.
    """

    def __init__(self, cipher: Cipher | None) -> None:
        self._cipher = cipher

    @override
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        if self._cipher is None:
            return list(payloads)
        return [
            Payload(metadata={"encoding": _ENCODING}, data=self._cipher.encrypt(payload.SerializeToString()))
            for payload in payloads
        ]

    @override
    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            self._decrypted(payload) if payload.metadata.get("encoding") == _ENCODING else payload
            for payload in payloads
        ]

    def _decrypted(self, payload: Payload) -> Payload:
        if self._cipher is None:
            raise EncryptionError(f"what is stored is encrypted: set {KEY_VARIABLE} to the key, as its workers do")
        return Payload.FromString(self._cipher.decrypt(payload.data))


async def decrypt_within(message: Message, codec: PayloadCodec) -> None:
    """Decode, in place, all payloads within a message of Temporal's API, such as an event of a history."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        entries = field.message_type.fields_by_name.get("value") if field.message_type.GetOptions().map_entry else None
        parts = (value.values() if entries else value) if field.is_repeated else (value,)
        for part in parts:
            if isinstance(part, Payload):
                (plain,) = await codec.decode([part])
                part.CopyFrom(plain)
            elif isinstance(part, Message):
                await decrypt_within(part, codec)


def load_cipher(folder: Path, environment: Mapping[str, str] = os.environ) -> AesGcm | None:
    """The cipher with the keys from ``COUNTERMAND_PAYLOAD_KEY``, or else from the folder's ``payload.key``, if any.

    A key is 32 bytes in base64; of several, apart by white space, the newest stands first.

    Raises:
        EncryptionError: What is there is no key.
    """
    given, source = environment.get(KEY_VARIABLE, ""), KEY_VARIABLE
    path = folder / KEY_FILE
    if not given.strip():
        if not path.exists():
            return None
        given, source = path.read_text(errors="replace"), str(path)
    try:
        keys = [base64.b64decode(key, validate=True) for key in given.split()]
    except ValueError:
        keys = []
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise EncryptionError(f"{source}: a key is 32 bytes in base64; make one by: openssl rand -base64 32")
    return AesGcm(keys)
