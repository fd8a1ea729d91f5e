"""Where the servers are."""

import socket

from countermand.saga.types import Frozen


class Endpoints(Frozen):
    """The addresses that a command works with, embedded or configured."""

    temporal_host: str
    temporal_ui: str | None = None
    namespace: str
    task_queue: str
    redis_url: str
    world_url: str


def free_port(asked: int = 0) -> int:
    """A free loopback port; the asked one if it is free.

    Raises:
        OSError: The asked port is taken.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", asked))
        return probe.getsockname()[1]
