"""The near cache: canonical bytes in this process, by digest. Bytes are immutable, so no caller can spoil an entry."""

from collections import OrderedDict


class NearCache:
    """Least recently used first out. ``max_bytes`` bounds the values' sum."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, digest: str) -> bytes | None:
        """The value with this digest, if it is here."""
        value = self._values.get(digest)
        if value is not None:
            self._values.move_to_end(digest)
        return value

    def put(self, digest: str, value: bytes) -> None:
        """Keep a value; one that is larger than the whole cache is let go."""
        if digest in self._values or len(value) > self._max_bytes:
            return
        self._values[digest] = value
        self._bytes += len(value)
        while self._bytes > self._max_bytes:
            _, dropped = self._values.popitem(last=False)
            self._bytes -= len(dropped)
