"""What keeps a start short: imports without interruptions, and without what nobody uses.

main ─► `up` in plain words ─────────────► imports ─► the command
     └► anything else ─► imports ─► app ─► imports ─► the command

Half of a start is importing modules. Measured on `up`: the garbage collector, which looks at
everything again and again while modules pile up and finds nothing, is a quarter of that; `rich`,
which structlog takes along wherever it is installed, a fifth; `pydantic`, which typer checks
options with and Litestar looks for, another fifth.
"""

from __future__ import annotations

import gc
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_HIGHEST_PORT = 65535
_EMBEDDED = ("cryptography", "re2")  # modules of the extra `embedded`
# A flag takes no value: it goes the long way.
_TAKE_A_VALUE = ("data", "host", "port", "kube_host", "kube_port")


class UpLine(NamedTuple):
    """What `up` is told; the defaults of its options."""

    data: Path | None = None
    host: str = "127.0.0.1"
    port: int = 3000
    kube_host: str = "127.0.0.1"
    kube_port: int | None = None
    strict: bool = False
    reserve: int | None = None  # bytes of disk kept back; None = a share of it


def read_up(words: Sequence[str]) -> UpLine | None:
    """Read what stands behind `up` if it is options with good values, and nothing else.

    None means that it takes the command line proper: to refuse it, to print help. This saves the
    usual start a tenth of its time, and 12 MiB.
    """
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if not sign:
            value = next(rest, "")
        field = name.removeprefix("--").replace("-", "_")
        if word[:2] != "--" or "_" in name or field not in _TAKE_A_VALUE:
            return None
        if not value or value.startswith("-"):
            return None
        given[field] = value
    return _checked(given)


def _checked(given: Mapping[str, str]) -> UpLine | None:
    values: dict[str, Any] = dict(given)
    if "data" in values:
        values["data"] = Path(values["data"])
    for name in values.keys() & {"port", "kube_port"}:
        digits = values[name]
        if not re.fullmatch("[0-9]{1,5}", digits) or int(digits) > _HIGHEST_PORT:
            return None
        values[name] = int(digits)
    return UpLine(**values)


@contextmanager
def imports() -> Iterator[None]:
    """Import in peace. What was imported stays, so the collector need never look at it again."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def without(*modules: str) -> Iterator[None]:
    """Import something without what it would take along only because that is installed.

    `None` in sys.modules is Python's way of saying that a module cannot be imported; whoever wants
    it afterwards gets it.
    """
    hidden = [name for name in modules if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # the documented marker
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


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
    """Import structlog without rich, which it would use for tracebacks that we do not print."""
    with without("rich"):
        import structlog  # noqa: F401  for its side effect on sys.modules
