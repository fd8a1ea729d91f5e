"""Which of a task queue's company a worker serves; see ``countermand.worker``."""

from typing import Literal

Queues = Literal["all", "chats", "swarms"]
"""Chats and all model calls, or swarms, or both."""
