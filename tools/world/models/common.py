"""Shapes that all providers share: money, names, undo, probes and pages."""

import re
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

ItemT = TypeVar("ItemT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)

_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)")


def _check_hostname(name: str) -> str:
    """RFC 1123, section 2.1: labels of letters, digits and inner hyphens; here at least two labels."""
    lowered = name.lower()
    labels = lowered.split(".")
    if len(lowered) > 253 or len(labels) < 2 or not all(_LABEL.fullmatch(label) for label in labels):  # noqa: PLR2004 - the RFC's own limits
        raise ValueError(f"{name[:80]!r} is not a host name such as app.example.com")
    return lowered


Hostname = Annotated[str, AfterValidator(_check_hostname)]
Key = Annotated[str, Field(min_length=1, max_length=255)]
Amount = Annotated[int, Field(ge=1, le=10**12, description="Minor units of the currency.")]
Currency = Annotated[str, Field(pattern="^[a-z]{3}$", description="ISO 4217 code, lower case.")]
Quantity = Annotated[int, Field(ge=1, le=100)]
Reference = Annotated[str, Field(max_length=200, description="The caller's own name for what this is about.")]
PlanName = Literal["small", "medium", "large"]
Region = Literal["eu-west", "eu-north", "us-east", "ap-south"]


class Frozen(BaseModel):
    """A value that crosses the wire: immutable, and strict about what it is given."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class Money(Frozen):
    """An amount in minor units and its currency."""

    amount: int
    currency: Currency


class Nothing(Frozen):
    """A request that says nothing."""


class ById(Frozen):
    """A request for one thing."""

    id: str = Field(min_length=1, max_length=200)


class Paging(Frozen):
    """A request for one page, oldest first. ``after`` is the last id of the page before."""

    limit: int = Field(default=20, ge=1, le=100)
    after: str | None = None


class Page(Frozen, Generic[ItemT]):
    """One page. ``next`` is what to ask ``after`` for the page that follows, None on the last."""

    data: list[ItemT]
    next: str | None


class Undo(Frozen):
    """What to undo: named by the forward call's idempotency key, or by the id of what it made."""

    original_key: Key | None = None
    id: str | None = None

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if (self.original_key is None) == (self.id is None):
            raise ValueError("name what to undo by either original_key or id")
        return self


class Undone(Frozen, Generic[ResultT]):
    """What an undo did; ``noop``: nothing stood, so nothing changed."""

    outcome: Literal["done", "noop"]
    result: ResultT | None


class Probe(Frozen):
    """Did the call with this key land?"""

    key: Key


class Probed(Frozen):
    """``result`` is the forward call's own answer when it landed."""

    status: Literal["landed", "not_landed", "unknown"]
    result: JsonValue = None
