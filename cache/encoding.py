"""How a value stands in Redis: compressed above a threshold, encrypted if a cipher is given, bounded in size."""

import zlib
from dataclasses import dataclass
from typing import Protocol

_PLAIN, _ZLIB = b"j", b"z"


class Cipher(Protocol):
    """Authenticated encryption with the caller's key, such as the payload codec's."""

    def encrypt(self, data: bytes, /) -> bytes:
        """Encrypt and authenticate."""
        ...

    def decrypt(self, data: bytes, /) -> bytes:
        """Decrypt; raises anything at all when ``data`` is not authentic."""
        ...


class Undecodable(ValueError):
    """Bytes that this encoding did not write."""


@dataclass(frozen=True)
class Encoding:
    """Bytes to bytes. Sizes are in bytes and count the plain value.

    Args:
        max_bytes: Nothing larger is written, and reading never inflates beyond it.
        compress_above: Values larger than this are compressed (zlib's fastest level: a turn waits for it).
        cipher: Encrypts what is stored; None stores it in clear.
    """

    max_bytes: int = 8 * 2**20
    compress_above: int = 16 * 2**10
    cipher: Cipher | None = None

    @property
    def max_stored_bytes(self) -> int:
        """The most that a written value may take in Redis: room for a cipher that writes text."""
        return 2 * self.max_bytes

    def encode(self, plain: bytes) -> bytes:
        """The stored form of a value of at most ``max_bytes``."""
        data = _ZLIB + zlib.compress(plain, 1) if len(plain) > self.compress_above else _PLAIN + plain
        return self.cipher.encrypt(data) if self.cipher else data

    def decode(self, stored: bytes) -> bytes:
        """The value behind its stored form.

        Raises:
            Undecodable: Not written by this encoding, not authentic, or larger than ``max_bytes``.
        """
        data = self._decrypt(stored)
        marker, body = data[:1], data[1:]
        if marker == _ZLIB:
            body = self._inflate(body)
        elif marker != _PLAIN:
            raise Undecodable("unknown marker")
        if len(body) > self.max_bytes:
            raise Undecodable("too large")
        return body

    def _decrypt(self, stored: bytes) -> bytes:
        if self.cipher is None:
            return stored
        try:
            return self.cipher.decrypt(stored)
        except Exception as error:
            raise Undecodable("not authentic") from error

    def _inflate(self, body: bytes) -> bytes:
        inflater = zlib.decompressobj()
        try:
            plain = inflater.decompress(body, self.max_bytes + 1)
        except zlib.error as error:
            raise Undecodable("not zlib") from error
        if not inflater.eof:
            raise Undecodable("truncated or too large")
        return plain
