"""What the audit raises."""

from countermand.saga.errors import CountermandError


class AuditError(CountermandError):
    """The audit cannot do what was asked; the message names what is wrong and what to do next."""
