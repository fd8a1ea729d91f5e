"""The servers that development needs, each its own process."""

from countermand.embedded.connect import connected
from countermand.embedded.endpoints import Endpoints
from countermand.embedded.errors import EmbeddedError

__all__ = ["EmbeddedError", "Endpoints", "connected"]
