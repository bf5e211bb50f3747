"""Where the program begins: `boilerhouse …` and `python -m boilerhouse.main …`.

boilerhouse agent | snapshot-helper ─► that program, and nothing else imported
boilerhouse …                       ─► the command line
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one of the small programs of the product image, or the command line."""
    _open_what_is_closed()
    # An agent runs beside every tenant: the command line's libraries would weigh more than it.
    match sys.argv[1:]:
        case ["agent"]:
            from boilerhouse.node.agent.__main__ import main as run
        case ["snapshot-helper"]:
            from boilerhouse.node.helper.__main__ import main as run
        case _:
            run = _command_line
    run()


def _open_what_is_closed() -> None:
    """Give a process without stdin, stdout or stderr empty ones.

    The next file or socket to be opened would get their number, and what is printed would go there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            os.set_inheritable(number, True)
            stream = open(number, "r" if number == 0 else "w", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)


def _command_line() -> None:
    try:
        from boilerhouse.run.startup import import_structlog_alone, imports

        with imports():
            import_structlog_alone()
            from boilerhouse.cli.app import app
        app(prog_name="boilerhouse")
    except KeyboardInterrupt:  # while it was still importing
        sys.exit(130)


if __name__ == "__main__":
    main()
