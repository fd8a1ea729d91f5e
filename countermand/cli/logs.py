"""Logs of commands that run for long: structured lines on standard error, ours and the libraries' alike."""

import logging
import sys

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from countermand.saga.sensitive import masked_for_log


def log_to_stderr() -> None:
    """Write logs as lines for people in a terminal, as JSON elsewhere; without secrets and e-mail addresses."""
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # A traceback's local variables are the arguments of the tool that failed.
    tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    terminal = sys.stderr.isatty()
    last: list[Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.RichTracebackFormatter(show_locals=False))]
        if terminal
        else [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]
    )
    last.append(_without_secrets)
    structlog.configure(processors=[*shared, *last], logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def _without_secrets(_logger: WrappedLogger, _method: str, line: EventDict | str) -> str:
    """The last processor: whatever a message, a field or a traceback says, the line is masked whole."""
    return masked_for_log(str(line))
