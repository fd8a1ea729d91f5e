"""Field types that several tool packs share; what they refuse never reaches a provider."""

from typing import Annotated

from pydantic import StringConstraints

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:-]{1,80}$")]
"""The id of a thing at a provider."""

HostName = Annotated[
    str,
    StringConstraints(
        to_lower=True,
        max_length=253,
        pattern=r"^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]$",
    ),
]
"""A fully qualified host name, RFC 1123."""
