"""What can go wrong with the embedded servers, each in one line that says what to do."""

from countermand.saga.errors import CountermandError


class EmbeddedError(CountermandError):
    """An embedded server could not be started or reached."""
