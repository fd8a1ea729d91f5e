"""Which of a task queue's company a worker serves; see ``countermand.worker``."""

from typing import Literal

Queues = Literal["all", "chats", "swarms"]
"""Those of chats, of swarms, or both; each has one for its model calls."""
