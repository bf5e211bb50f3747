"""Where the program begins: `boilerhouse …` and `python -m boilerhouse.main …`."""

from __future__ import annotations

from boilerhouse.cli.startup import import_structlog_alone, imports


def main() -> None:
    """Run the command line."""
    with imports():
        import_structlog_alone()
        from boilerhouse.cli.app import app
    app(prog_name="boilerhouse")


if __name__ == "__main__":
    main()
