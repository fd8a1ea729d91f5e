"""Checking what ``--model`` names, for the commands that have one."""

from collections.abc import Iterable

from countermand.agents.models import ModelUnavailable, check_model_name, check_provider
from countermand.cli.console import USAGE, CommandError
from countermand.settings import Settings


def check_models(names: Iterable[str | None], settings: Settings) -> None:
    """Refuse models that can't be asked, before anything is started.

    Args:
        names: As they are given; None is somebody else's to say.
        settings: Where the servers are. Only a worker of our own has our environment, and so the provider's key.

    Raises:
        CommandError: In one line.
    """
    for name in names:
        if name is None:
            continue
        try:
            check_model_name(name)
            if settings.embedded:
                check_provider(name)
        except ModelUnavailable as error:
            raise CommandError(f"--model: {error}", USAGE) from error
