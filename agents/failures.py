"""Why a model could not be asked: in one line, and whether asking again may help."""

from collections.abc import Mapping
from datetime import timedelta

from temporalio.exceptions import ApplicationError

from countermand.agents.models import ModelUnavailable

MAX_WAIT = timedelta(minutes=1)
"""What a provider that says Retry-After (RFC 9110, section 10.2.3) is waited for at most."""

_PASSING = {408, 409, 425, 429}
"""Client errors of RFC 9110 that another attempt may not meet; the others say that the request itself is wrong."""


def as_failure(error: Exception) -> ApplicationError:
    """The failure that Temporal is told of; it retries, unless that would change nothing."""
    status = _status(error)
    refused = 400 <= status < 500 and status not in _PASSING  # noqa: PLR2004 - the range of client errors
    return ApplicationError(
        " ".join(str(error).split())[:300] or type(error).__name__,
        type=type(error).__name__,
        non_retryable=refused or isinstance(error, ModelUnavailable),
        next_retry_delay=_retry_after(error),
    )


# The clients of OpenAI and Anthropic name status and response, Ollama's the status; they share no base class.
def _status(error: Exception) -> int:
    status: object = getattr(error, "status_code", 0)
    return status if isinstance(status, int) else 0


def _retry_after(error: Exception) -> timedelta | None:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    seconds = headers.get("Retry-After", "")
    return min(timedelta(seconds=int(seconds)), MAX_WAIT) if seconds.isdecimal() else None
