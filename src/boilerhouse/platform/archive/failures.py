"""Why an archive was not written or not taken. Imported by the worker too: keep it light."""

from __future__ import annotations

DEEPER = "deeper"  # code: directories lie so deep that the worker has to be told before


class ArchiveError(Exception):
    """`code` is for programs, `message` for people; it names the file if it is about one."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class BadArchive(ArchiveError):
    """The archive is broken, hostile or over a limit; nothing outside the overlays was touched.

    Another try with the same bytes ends the same way.
    """


class Failed(ArchiveError):
    """This machine could not do it (unreadable, disk full, worker died): another try may."""


def writer_process_died() -> Failed:
    """Say that the process died which a worker has beside it."""
    return Failed("worker-died", "the second process of the archive's worker has died")
