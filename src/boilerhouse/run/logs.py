"""How log lines look: for people on a terminal, JSON for everything else.

log.info("event", field=…) ──┐
                             ├─► outlet ─► stderr
logging of libraries ────────┘

stdout stays free for what a command prints on purpose. A line that cannot be written changes
nothing but the log: see outlet.py.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
from collections.abc import Callable
from typing import Any

import msgspec
import structlog
from structlog.typing import Processor

from boilerhouse.run.outlet import STDERR, STDOUT


def configure() -> None:
    """Set up logging for a process; call once, before the first line."""
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    rendering = _for_people() if os.isatty(2) else _for_machines()
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=True,
    )
    handler: logging.Handler = logging.StreamHandler(STDERR)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    STDERR.lost = _losses(shared, rendering)
    atexit.register(drain)


def drain() -> None:
    """Give what was said a last, short chance to be read."""
    STDOUT.drain()
    STDERR.drain()


class _Lines:
    """What structlog writes to: one call, one line."""

    def msg(self, line: str) -> None:
        STDERR.write(line + "\n")

    debug = info = warning = error = critical = msg


def _losses(shared: list[Processor], rendering: list[Processor]) -> Callable[[int], str]:
    def line(count: int) -> str:
        said: Any = {"event": "log.lost", "lines": count}
        for processor in (*shared, *rendering):
            said = processor(None, "warning", said)
        return f"{said}\n"

    return line


def _for_people() -> list[Processor]:
    colors = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
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
    try:
        return msgspec.json.encode(fields, enc_hook=str).decode()
    except (ValueError, TypeError, OverflowError):
        # Half a character in a path, a number beyond 64 bits: odd, but worth its line.
        return json.dumps(fields, default=repr, skipkeys=True)
