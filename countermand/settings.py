"""What can be set, in one place: by environment (``COUNTERMAND_*``), by ``.env``, or in code."""

import os
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from countermand.saga.errors import CountermandError

_LAST_PORT = 65535


def _state_folder() -> Path:
    """``$XDG_STATE_HOME/countermand``, as the XDG base directory specification places program state."""
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "countermand"
    except RuntimeError as error:
        raise CountermandError("you have no home folder here: set COUNTERMAND_STATE_FOLDER") from error


def _absolute(path: Path) -> Path:
    """The same folder for every command, wherever it is called."""
    return path.expanduser().absolute()


def _host_and_port(address: str) -> str:
    """An address as Temporal's client takes it."""
    match = re.fullmatch(r"[^\s/]+:(\d{1,5})", address)
    if match is None or not 0 < int(match[1]) <= _LAST_PORT:
        raise ValueError(f"temporal_host: {address!r} is not host:port, as localhost:7233 is")
    return address


def _redis_url(url: str) -> str:
    """A URL that the context cache understands."""
    # Loaded only where one is set: commands that need no cache need not wait for its client.
    from countermand.cache.urls import make_client  # noqa: PLC0415

    make_client(url, socket_timeout=1)
    return url


class Settings(BaseSettings):
    """Where the servers are and how hard to try. Unset addresses mean: start and use the embedded servers."""

    model_config = SettingsConfigDict(
        env_prefix="COUNTERMAND_", env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    temporal_host: Annotated[str, AfterValidator(_host_and_port)] = Field(
        default="localhost:7233", description="Temporal's gRPC address, host:port."
    )
    namespace: str = Field(default="production-transactions", description="Temporal namespace.")
    task_queue: str = Field(default="agent-saga-queue", description="Task queue of sagas, sessions and tools.")
    max_activity_retries: int = Field(default=3, ge=1, le=100, description="Attempts of one tool call.")
    redis_url: Annotated[str, AfterValidator(_redis_url)] = Field(
        default="redis://localhost:6379/0", description="The context cache."
    )
    world_url: str = Field(
        default="http://localhost:8700", pattern=r"^https?://[^\s/]+", description="The world simulator's base URL."
    )
    model: str = Field(
        default="stub", description="stub[:persona], script:PATH, cassette:PATH, or langchain's provider:model."
    )
    model_rate: float | None = Field(
        default=None,
        gt=0,
        description="How many times a second chats, and swarms, ask models at most, by all workers together.",
    )
    model_prices: Annotated[Path, AfterValidator(_absolute)] | None = Field(
        default=None, description="A YAML file of what models cost, over the list that comes with Countermand."
    )
    tools: str = Field(default="", description="Modules that register tools of one's own, comma separated.")
    state_folder: Annotated[Path, AfterValidator(_absolute)] = Field(
        default_factory=_state_folder, description="Embedded servers' data and logs."
    )

    @property
    def embedded(self) -> bool:
        """Whether no Temporal server was configured, so that the embedded servers are used."""
        return "temporal_host" not in self.model_fields_set

    @property
    def chosen(self) -> dict[str, str]:
        """Addresses of servers beside Temporal that were set: they win over embedded ones."""
        return self.model_dump(include=self.model_fields_set & {"redis_url", "world_url"})

    @property
    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings."""
        return {f"COUNTERMAND_{name.upper()}": str(getattr(self, name)) for name in self.model_fields_set}
