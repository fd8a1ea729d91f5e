"""The values that workers share about a session."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class ContextRef(BaseModel):
    """Which state of a conversation is meant; the digest (SHA-256, hex) makes it immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session: str
    version: Annotated[int, Field(ge=0)]
    digest: str
