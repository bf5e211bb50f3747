"""The child process that does one job: fingerprint, pack or unpack.

    child.py ─► zygote.py | python -c … ─► job on stdin ─► privileges ─► Landlock ─► work ─► report

A process of its own, since the work is Python's and would hold up the event loop; it dies with its
parent. One starts with every save and restore: few imports, and only those that the job needs.
The report is one Python literal, on stderr.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import resource
import sys
from collections.abc import Callable, Iterator

from boilerhouse.platform.archive import confine
from boilerhouse.platform.archive.failures import DEEPER, BadArchive, Failed
from boilerhouse.platform.archive.header import LEVELS
from boilerhouse.platform.archive.job import LENGTH, Job
from boilerhouse.platform.archive.tally import DEEP, fingerprint
from boilerhouse.platform.archive.walk import OPEN_DIRECTORY, Root
from boilerhouse.platform.files.treewalk import Walk

_PIECE = 64 << 10
_PIPE = 1 << 20
_FILES = 1 << 16
_SWITCH = 0.0005  # seconds that one thread of a stream waits for the other to give way
_NICE = 10  # saving can wait for claiming
_ANCHORS = 10_000  # deep directories that Landlock is told of

Report = dict[str, object]
Work = Callable[[], Report]


def main(parent: str) -> None:
    """Wait for a job, do it and report. `parent` is the process that started this one."""
    confine.die_with_parent(int(parent))
    try:
        job = Job.decode(_read(int.from_bytes(_read(LENGTH))))
        if job.operation != "unpack":
            _give_way()
        report = _run(job, int(parent))
    except BadArchive as error:
        report = {"bad": (error.code, error.message)}
    except Failed as error:
        report = {"failed": (error.code, error.message)}
    except MemoryError:
        report = {"failed": ("out-of-memory", "there is not enough memory for the archive")}
    except BrokenPipeError:
        report = {"failed": ("cut-off", "nobody takes the archive any more")}
    os.write(2, ascii(report).encode())
    os.close(2)  # who waits for that need not wait for the kernel to take our memory back
    os._exit(0)  # nothing is left to be tidied up


def import_all() -> None:
    """Import what any job needs, in the process that workers are forked from."""
    import boilerhouse.platform.archive.pack
    import boilerhouse.platform.archive.reader
    import boilerhouse.platform.archive.source
    import boilerhouse.platform.archive.threads
    import boilerhouse.platform.archive.unpack  # noqa: F401


def _give_way() -> None:
    """Let whoever is waited for have the processor first; on an idle one nothing is lost."""
    os.nice(_NICE)
    with contextlib.suppress(OSError):  # a container may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _read(length: int) -> bytes:
    """Read exactly so many bytes; who sent fewer does not need us any more."""
    told = b""
    while len(told) < length:
        piece = os.read(0, length - len(told))
        if not piece:
            os._exit(0)
        told += piece
    return told


def _run(job: Job, parent: int) -> Report:
    sys.setswitchinterval(_SWITCH)
    gc.disable()  # nothing here makes circles, and looking for them takes time
    os.umask(0)  # modes are meant
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    roots = _roots(job)
    work, allowed = _prepare(job, roots)
    sees_all = _privileges(job, roots)
    confine.die_with_parent(parent)  # the kernel forgets it with every change of privileges
    within = _deep_ones(roots) if job.deep else ()
    confine.landlock([root for _, root in roots], allowed, within)
    report = work()
    if sees_all:
        # A restore cannot be told before that it is deep: its parent looks at it then.
        known = job.deep or job.operation == "pack"
        try:
            report["fingerprint"] = fingerprint(roots, LEVELS if known else DEEP)
        except Failed as error:
            if error.code != DEEPER or job.operation != "unpack":
                raise
    return report


def _deep_ones(roots: list[Root]) -> Iterator[int]:
    """Yield some of the directories that lie deep in the overlays, for Landlock."""
    left = _ANCHORS
    for _, root in roots:
        for depth, _, directory, is_directory in Walk(root, _never_mind):
            if is_directory and depth and not depth % DEEP:
                yield directory
                left -= 1
                if not left:
                    return


def _never_mind(_directory: int, _name: str | None, _error: OSError) -> None:
    """Leave out what cannot be looked at: who reads it will say so."""


def _roots(job: Job) -> list[Root]:
    roots = []
    for path, directory in job.overlays:
        try:
            roots.append((path, os.open(directory, OPEN_DIRECTORY)))
        except OSError as error:
            raise Failed("no-overlay", f"{directory!r} is not there: {error.strerror}") from error
    return roots


def _privileges(job: Job, roots: list[Root]) -> bool:
    """Give up what the job does not need.

    False if directories that a tenant has closed, and that are closed again once their content is
    restored, are closed to this process too. Somebody else takes the fingerprint then.
    """
    if os.geteuid():
        confine.override()
    elif job.operation == "unpack" and job.outside is not None:
        for _, root in roots:
            os.fchown(root, *job.outside)
        confine.become(*job.outside)
        return confine.override()
    return True


def _prepare(job: Job, roots: list[Root]) -> tuple[Work, int]:
    """Import what the job needs, while anything can be imported; returns it and its access."""
    if job.operation == "pack":
        return _pack(job, roots), confine.READ
    if job.operation == "unpack":
        return _unpack(job, roots), confine.WRITE
    return dict, confine.READ


def _pack(job: Job, roots: list[Root]) -> Work:
    from boilerhouse.platform.archive.pack import Gzip, Pack

    with contextlib.suppress(OSError):  # fewer and larger pieces for who reads them
        fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _PIPE)

    def work() -> Report:
        out = Gzip(_write)
        pack = Pack(out, None if job.outside is None else job.inside)
        pack.run(roots)
        digest = out.end()
        os.close(1)  # so that who reads knows that this is all
        return {
            "sha256": digest, "size": out.size, "entries": pack.entries, "content": pack.content,
            "skipped": pack.skipped,
        }  # fmt: skip

    return work


def _unpack(job: Job, roots: list[Root]) -> Work:
    from boilerhouse.platform.archive.reader import Reader
    from boilerhouse.platform.archive.source import Inflater, Source
    from boilerhouse.platform.archive.threads import ahead
    from boilerhouse.platform.archive.unpack import Unpack

    def work() -> Report:
        inflater = Inflater(lambda: os.read(0, _PIECE))
        source = Source(ahead(inflater.piece))
        reader = Reader(source, *job.limits)
        unpack = Unpack(source, reader, roots, owners=job.outside is None)
        unpack.run()
        return {
            "sha256": inflater.digest(), "size": inflater.size, "entries": reader.entries,
            "content": reader.content, "skipped": unpack.skipped,
        }  # fmt: skip

    return work


def _write(piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(1, left) :]
