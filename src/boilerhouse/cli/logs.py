"""How log lines look: for people on a terminal, JSON for everything else.

log.info("event", field=…) ──┐
                             ├─► stderr
logging of libraries ────────┘

stdout stays free for what a command prints on purpose.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import msgspec
import structlog
from structlog.typing import Processor


def configure() -> None:
    """Set up logging for a process; call once, before the first line."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering = _for_people() if sys.stderr.isatty() else _for_machines()
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _for_people() -> list[Processor]:
    colors = not os.environ.get("NO_COLOR")
    # A traceback without the values of variables: those may be secrets.
    return [
        structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _for_machines() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_json),
    ]


def _json(fields: Any, **_: Any) -> str:
    return msgspec.json.encode(fields, enc_hook=str).decode()
