"""Where the program begins: `boilerhouse …` and `python -m boilerhouse.main …`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from boilerhouse.cli.app import app

    app(prog_name="boilerhouse")


if __name__ == "__main__":
    main()
