"""Logs of commands that run for long: structured lines on standard error, ours and the libraries' alike."""

import logging
import sys

import structlog


def log_to_stderr() -> None:
    """Write logs as lines for people in a terminal, as JSON elsewhere."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    terminal = sys.stderr.isatty()
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer()]
        if terminal
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    )
    structlog.configure(processors=[*shared, *last], logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
