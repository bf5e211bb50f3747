"""What keeps a start short: imports without interruptions, and without what is not used.

main ─► imports ─► app ─► imports ─► the command

Half of a start is importing modules. Measured on `up`: the garbage collector, which looks at
everything again and again while modules pile up and finds nothing, is a quarter of that; `rich`,
which structlog takes along wherever it is installed, a fifth.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_EMBEDDED = ("cryptography", "re2")  # modules of the extra `embedded`


@contextmanager
def imports() -> Iterator[None]:
    """Import in peace. What was imported stays, so the collector need never look at it again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def require_embedded() -> None:
    """End with one sentence if what only `up` needs is not installed."""
    missing = [name for name in _EMBEDDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"boilerhouse: `up` needs what is not installed here ({', '.join(missing)}):"
            " pip install 'boilerhouse[embedded]'",
            file=sys.stderr,
        )
        sys.exit(1)


def import_structlog_alone() -> None:
    """Import structlog without rich, which it would use for tracebacks that we do not print.

    `None` in sys.modules is Python's way of saying that a module cannot be imported; what wants it
    afterwards gets it.
    """
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # the documented marker
    try:
        import structlog  # noqa: F401  for its side effect on sys.modules
    finally:
        del sys.modules["rich"]
