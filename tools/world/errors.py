"""How the world refuses: one error shape for every provider, as Stripe documents its own."""

from pydantic import BaseModel, ConfigDict


class ErrorDetail(BaseModel):
    """What went wrong. ``code`` is for programs, ``message`` for people and models."""

    model_config = ConfigDict(frozen=True)

    type: str
    code: str
    message: str
    param: str | None = None
    decline_code: str | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is not 2xx. Source: https://docs.stripe.com/api/errors."""

    model_config = ConfigDict(frozen=True)

    error: ErrorDetail


class Refusal(Exception):
    """A provider's considered no: the call had no effect."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        type: str = "invalid_request_error",  # noqa: A002 - the field's name in the documented body
        decline_code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(error=ErrorDetail(type=type, code=code, message=message, decline_code=decline_code))


def missing(kind: str, identity: str) -> Refusal:
    """The refusal for an id that names nothing."""
    return Refusal(404, "resource_missing", f"No {kind} has the id {identity!r}.")
