"""Where the program begins: `boilerhouse …` and `python -m boilerhouse.main …`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    import_structlog_alone()
    from boilerhouse.cli.app import app

    app(prog_name="boilerhouse")


def import_structlog_alone() -> None:
    """Import structlog without `rich`: a fifth of every start, for tracebacks we do not print.

    structlog takes rich along wherever it is installed. `None` in sys.modules is Python's way of
    saying that a module cannot be imported; whoever wants rich afterwards gets it.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the documented marker
    try:
        import structlog  # noqa: F401  for its side effect on sys.modules
    finally:
        del sys.modules["rich"]


if __name__ == "__main__":
    main()
