"""DNS records on the wire."""

from typing import Annotated, Literal

from pydantic import Field

from countermand.tools.world.models.common import Frozen, Hostname

RecordType = Literal["A", "AAAA", "CNAME", "TXT"]
Value = Annotated[str, Field(min_length=1, max_length=255)]


class RecordName(Frozen):
    """A request about one name."""

    name: Hostname
    type: RecordType = "A"


class Content(RecordName):
    """What a record says; one name may have several values. ``ttl`` in seconds."""

    values: list[Value] = Field(min_length=1, max_length=20)
    ttl: int = Field(default=300, ge=1, le=86_400)


class Register(Content):
    """Write a record.

    ``expected_version`` is what must stand before: None for no record, a number for the record of that version,
    ``any`` to replace whatever is there (the undo puts it back).
    """

    expected_version: Annotated[int, Field(ge=1)] | Literal["any"] | None = None


class Record(Content):
    """A record as it stands. No two writes ever share a ``version``."""

    id: str
    version: int
    key: str | None = Field(description="Of the call that wrote it; None for one that stood before.")


class Registered(Frozen):
    """What was written, and what stood there before."""

    record: Record
    previous: Record | None


class Restored(Frozen):
    """What stands after an undo."""

    name: Hostname
    type: RecordType
    record: Record | None


class Resolved(Frozen):
    """What resolvers answer now: a change shows only after the propagation delay."""

    name: Hostname
    type: RecordType
    values: list[str]


class DnsState(Frozen):
    """All of the provider's tables."""

    records: list[Record]
