"""`boilerhouse snapshot`: what is stored of tenants, fetched, put, gone back to, removed.

get: server ─► pieces ─► temporary file ─► digest checked ─► renamed
                   └─► stdout, FIFO, device
put: file or stdin ─► pieces ─► server

A file appears under its name only when it is whole and its bytes are what the server stored; one
that is there is never lost by mistake. What is no file is written into, and stays what it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

import typer

from boilerhouse.cli.get import Cell, Item, table
from boilerhouse.cli.progress import shown
from boilerhouse.cli.rest import Broke, Failure, Rest, print_json, segment
from boilerhouse.core.clock import SystemClock

PIECE = 1 << 18
STDIO = "-"
MADE = 201  # with 200, what was asked for is current already
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _field(name: str) -> Cell:
    return lambda item: item.get(name)


def _size(item: Item) -> object:
    return size_of(int(item["size"]))


COLUMNS: dict[str, Cell] = {
    "TENANT": _field("tenantId"),
    "WORKLOAD": _field("workloadRef"),
    "VERSION": _field("version"),
    "CURRENT": _field("current"),
    "SIZE": _size,
    "FILES": _field("entries"),
    "KIND": _field("kind"),
    "AGE": _field("createdAt"),
    "DIGEST": lambda item: str(item["digest"])[:12],
}


def ls(rest: Rest, tenant: str | None, workload: str | None, *, versions: bool, output: str) -> int:
    """List what is stored: of everybody, of a tenant, of a workload, or every version of both."""
    match tenant, workload:
        case None, None:
            path = "snapshots"
        case None, str():
            path = f"workloads/{segment(workload)}/snapshots"
        case str(), None:
            path = f"tenants/{segment(tenant)}/snapshots"
        case _:
            path = _of(str(tenant), str(workload))
    _, found = rest.call("GET", path, query={"versions": "true"} if versions else None)
    if output == "json":
        print_json(found)
    elif not found:
        typer.echo("nothing is stored", err=True)
    else:
        typer.echo(table(COLUMNS, found, SystemClock().now()))
    return 0


def get(
    rest: Rest, tenant: str, workload: str, *, version: str, file: str | None, force: bool
) -> int:
    """Fetch an archive into a file, or to stdout."""
    try:
        return _fetch(rest, tenant, workload, version=version, file=file, force=force)
    except Broke as broke:
        # Damage that shows only when most has been sent cannot be told in any other way.
        raise Failure(
            f"{broke}; the {_called(version)} may be damaged, unless the server went away:"
            f" `boilerhouse snapshot ls {tenant} {workload}` lists the others,"
            " --version N fetches one"
        ) from broke


def _fetch(
    rest: Rest, tenant: str, workload: str, *, version: str, file: str | None, force: bool
) -> int:
    path = f"{_of(tenant, workload)}/{segment(version)}/archive"
    who = f"{tenant}/{workload}"
    if file == STDIO:
        _require_no_terminal(sys.stdout)
        with rest.stream("GET", path) as answer:
            _copied(_checked(answer), sys.stdout.buffer, _total(answer), who)
        return 0
    target = Path(file if file is not None else f"{tenant}-{workload}.tar.gz")
    if target.is_dir():
        target = target / f"{tenant}-{workload}.tar.gz"
    if _is_stream(target, force=force):
        with rest.stream("GET", path) as answer, _stream(target) as out:
            _copied(_checked(answer), out, _total(answer), who)
        return 0
    with rest.stream("GET", path) as answer, _appearing(target, force=force) as out:
        _copied(_checked(answer), out, _total(answer), who)
    typer.echo(f"{target} ({size_of(target.stat().st_size)})")
    return 0


def put(
    rest: Rest, tenant: str, workload: str, file: str, *, expect: str | None, output: str
) -> int:
    """Store an archive as what the tenant's next claim restores."""
    query = {} if expect is None else {"expect": expect}
    with _opened(file) as (source, length):
        pieces = shown(iter(lambda: source.read(PIECE), b""), f"{tenant}/{workload}", length)
        status, made = rest.send("PUT", _of(tenant, workload), pieces, length=length, query=query)
    _print_made(made, output, new=status == MADE)
    return 0


def restore(rest: Rest, tenant: str, workload: str, version: int, *, output: str) -> int:
    """Go back to a stored version."""
    status, made = rest.call("POST", f"{_of(tenant, workload)}/{version}/restore")
    _print_made(made, output, new=status == MADE)
    return 0


def rm(
    rest: Rest, tenant: str, workload: str, *, version: int | None, yes: bool, output: str
) -> int:
    """Remove a version, or everything that is stored; people are asked first."""
    what = "everything stored" if version is None else f"version {version}"
    if not yes:
        if not sys.stdin.isatty():
            raise Failure(f"this removes {what} of {tenant}'s {workload}: say --yes", 2)
        typer.confirm(f"Remove {what} of {tenant}'s {workload}?", abort=True, err=True)
    path = _of(tenant, workload)
    _, gone = rest.call("DELETE", path if version is None else f"{path}/{version}")
    if output == "json":
        print_json(gone)
    else:
        typer.echo(f"removed {what} of {tenant}'s {workload}")
    return 0


def size_of(count: int) -> str:
    """Say a number of bytes in one unit: 512 B, 1.5 MiB."""
    size = float(count)
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"


def _of(tenant: str, workload: str) -> str:
    return f"tenants/{segment(tenant)}/workloads/{segment(workload)}/snapshots"


def _called(version: str) -> str:
    return f"version {version}" if version.isdecimal() else f"{version} version"


def _total(answer: Any) -> int | None:
    length = answer.headers.get("content-length")
    return None if length is None else int(length)


def _checked(answer: Any) -> Iterator[bytes]:
    """Yield the pieces; fail at the end if they are not those whose digest was announced."""
    told = answer.headers.get("etag", "").strip('"')
    digest = hashlib.sha256()
    for piece in answer.iter_raw(PIECE):
        digest.update(piece)
        yield piece
    if told and digest.hexdigest() != told:
        raise Failure("what arrived is not what is stored (its sha256 differs): try again")


def _copied(pieces: Iterable[bytes], out: BinaryIO, total: int | None, what: str) -> None:
    out.writelines(shown(pieces, what, total))
    out.flush()


def _is_stream(target: Path, *, force: bool) -> bool:
    """Whether a target is written into, as FIFOs and devices are, and not made or replaced."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        if target.is_symlink() and not force:
            told = f"{target} is a link that leads nowhere: --force makes the file it names"
            raise Failure(told) from None
        return False
    except OSError as error:
        raise Failure(f"{target} cannot be written: {error.strerror}") from None
    if stat.S_ISDIR(mode):
        raise Failure(f"{target} is a directory: name a file with -f, or another directory")
    if stat.S_ISREG(mode) and not force:
        raise Failure(f"{target} exists: --force replaces it")
    return not stat.S_ISREG(mode)


def _require_no_terminal(out: IO[Any]) -> None:
    if out.isatty():
        raise Failure("an archive is nothing for a terminal: name a file, or use a pipe", 2)


@contextlib.contextmanager
def _stream(target: Path) -> Iterator[BinaryIO]:
    """Open a FIFO, once somebody reads it, or a device; neither is made if it is gone by now."""
    try:
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC), "wb") as out:
            _require_no_terminal(out)
            yield out
    except BrokenPipeError:
        raise  # its reader has had enough, as of any pipe
    except OSError as error:
        raise Failure(f"{target} cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _appearing(target: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file that gets its name only if all goes well; without `force`, only a free one.

    A link stays: what it leads to is made or replaced.
    """
    target = target.resolve()
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
    except OSError as error:
        raise Failure(f"{target} cannot be written: {error.strerror}") from None
    held = Path(temporary)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            os.fsync(out.fileno())
        if force:
            held.replace(target)
        else:
            target.hardlink_to(held)  # unlike a rename it never replaces
    except FileExistsError:
        raise Failure(f"{target} is there by now: --force replaces it") from None
    except OSError as error:
        raise Failure(f"{target} cannot be written: {error.strerror}") from None
    finally:
        held.unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open what is to be put, with its length if that is known."""
    if file == STDIO:
        yield sys.stdin.buffer, None
        return
    try:
        source = Path(file).open("rb")  # noqa: SIM115  closed below
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", 2) from None
    with source:
        found = os.fstat(source.fileno())
        yield source, found.st_size if stat.S_ISREG(found.st_mode) else None


def _print_made(made: Item, output: str, *, new: bool) -> None:
    if output == "json":
        print_json(made)
    else:
        who = f"{made['tenantId']}'s {made['workloadRef']}"
        since = "now" if new else "already: nothing was stored"
        typer.echo(f"{who} is version {made['version']} {since} ({size_of(int(made['size']))})")
