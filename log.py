"""Structured logs on stderr, the same for every process."""

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import structlog

from .config import Config

_ids: Callable[[], Mapping[str, Any]] | None = None


def set_ids(give: Callable[[], Mapping[str, Any]]) -> None:
    """Add to every record what ``give`` says where it is written; a record's own values count."""
    global _ids
    _ids = give


def _add_ids(
    _logger: Any, _method: str, record: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if _ids is not None:
        for name, value in _ids().items():
            record.setdefault(name, value)
    return record


def setup_logging(config: Config) -> None:
    """Send structlog's and the standard library's records to stderr.

    Libraries (the driver's pool, the web server, Alembic) use the standard
    library; both pass through one formatter, so that a log has one form.
    Safe to call again: it replaces what it set before.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_ids,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    as_json = config.log_format == "json" or (
        config.log_format == "auto" and not sys.stderr.isatty()
    )
    render: list[structlog.typing.Processor] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if as_json
        # The plain formatter: rich tracebacks print local variables, and those
        # hold payloads and connection strings.
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(handlers=[handler], level=config.log_level.upper(), force=True)
