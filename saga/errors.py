"""The errors, and what each tells its reader to do.

::

    CountermandError
    ├── ToolError                    raised by tools; the policy is the type
    │   ├── ToolRefused              the model can mend it: certainly no effect
    │   └── ToolUnavailable          retry; when retries are spent the outcome is unknown
    ├── ToolDeclarationError         a person mends it, before anything runs: a tool was declared wrongly
    └── SagaFailed                   final: the saga can only be rolled back now
    SagaRolledBack                   final: it was rolled back; carries the report (fails a workflow that lets it pass)
"""

from datetime import timedelta

from temporalio.exceptions import ApplicationError

from countermand.saga.types import Cause, SagaReport


class CountermandError(Exception):
    """Base of all errors that Countermand raises on purpose."""


class ToolError(CountermandError):
    """A tool call failed in a way that the tool itself understands."""


class ToolRefused(ToolError):
    """The call certainly had no effect; the message tells the model why, so that it may choose differently."""


class ToolUnavailable(ToolError):
    """The downstream could not answer now; the call may have had its effect.

    Args:
        message: What the downstream said.
        retry_after: How long the downstream asked to wait before the next attempt (Retry-After, RFC 9110).
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ToolDeclarationError(CountermandError):
    """A tool's declaration lacks something; the message names the tool and what is missing."""


class SagaFailed(CountermandError):
    """The saga takes no further steps and can only be rolled back; ``cause`` says why."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


class SagaRolledBack(ApplicationError):
    """The saga was rolled back.

    A Temporal failure, so that a workflow that lets it pass fails instead of retrying its task for ever.
    """

    def __init__(self, report: SagaReport) -> None:
        message = report.cause.message if report.cause else "the saga was rolled back"
        super().__init__(message, report.model_dump(mode="json"), type="SagaRolledBack", non_retryable=True)
        self.report = report
