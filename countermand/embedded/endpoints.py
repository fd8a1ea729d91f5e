"""Where the servers are, and what a supervisor tells about them."""

from countermand.saga.types import Frozen


class Endpoints(Frozen):
    """The addresses that a command works with.

    Attributes:
        temporal_host: Temporal's gRPC address, host:port.
        temporal_ui: URL of Temporal's web UI, where it is known.
        namespace: Temporal namespace.
        task_queue: Task queue of sagas, sessions and tools.
        redis_url: The context cache.
        world_url: The world simulator's base URL.
        embedded: Whether the Temporal server was started here: it is reached without TLS and key.
    """

    temporal_host: str
    temporal_ui: str | None = None
    namespace: str
    task_queue: str
    redis_url: str
    world_url: str
    embedded: bool = False


class Answer(Frozen):
    """What a supervisor tells whoever connects: the endpoints once all servers are healthy, or the error in a line."""

    pid: int
    logs: str
    endpoints: Endpoints | None = None
    error: str = ""
