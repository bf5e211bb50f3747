"""A disk that forgets what was not synced: replays a recording and shows what a crash would leave.

records ──► Disk.apply (one by one) ──► Disk.crash(loss, rng) ──► Image ──► a directory to open
                                    ──► Disk.open_questions ──► Disk.left(answers) ──► Image

The rules, as harsh as POSIX allows: data of a file is safe after an fsync of that file; a name is
safe after an fsync of its directory, and only then; nothing else is. What was not synced may be
there or not, sector by sector; names of one directory become safe in the order they were made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tests.faults.powerloss.recorder import Record

SECTOR = 512
_ROOT = 0


class Loss(Enum):
    """How much of what was not synced the crash takes."""

    EVERYTHING = "everything that was not synced is gone"
    DATA = "names survive, data that was not synced is gone"
    NAMES = "data survives, names that were not synced are gone"
    SOME = "a random part survives, torn at sectors"
    NOTHING = "all survives, as when only the process dies"


class Name(NamedTuple):
    """Whether a name in a directory is there after a crash, and which file it is then."""

    directory: int
    name: str


class Data(NamedTuple):
    """How much of a file's content is there after a crash."""

    file: int


Question = Name | Data
Answer = int | bytes | None
"""Of a name: the number of what it leads to, or None; of data: the content."""


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Truncate:
    length: int


@dataclass(slots=True)
class _File:
    """`doomed` of the unsafe changes met a failed sync: no later sync makes them safe."""

    safe: bytearray = field(default_factory=bytearray)
    unsafe: list[_Write | _Truncate] = field(default_factory=list)
    doomed: int = 0


@dataclass(slots=True)
class _Directory:
    """Names to numbers; `unsafe` are changes of names since the last sync, None for removed."""

    now: dict[str, int] = field(default_factory=dict)
    safe: dict[str, int] = field(default_factory=dict)
    unsafe: list[tuple[str, int | None]] = field(default_factory=list)

    def set(self, name: str, number: int | None) -> None:
        self.unsafe.append((name, number))
        _enter(self.now, name, number)


@dataclass(frozen=True, slots=True)
class Image:
    """A tree of files: two names of one file share its number, as hard links do."""

    directories: list[str] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)

    def files(self) -> dict[str, bytes]:
        return {name: self.contents[number] for name, number in self.names.items()}

    def write(self, directory: Path) -> None:
        """Make a new directory look like this."""
        directory.mkdir(mode=0o700)
        for path in self.directories:
            (directory / path).mkdir()
        written: dict[int, Path] = {}
        for path, number in self.names.items():
            if number in written:
                (directory / path).hardlink_to(written[number])
            else:
                written[number] = directory / path
                written[number].write_bytes(self.contents[number])


class Disk:
    def __init__(self, root_inode: int) -> None:
        self._files: dict[int, _File] = {}
        self._directories: dict[int, _Directory] = {_ROOT: _Directory()}
        # The kernel gives the number of a dead file to a new one while the dead one's name may
        # still come back; here every file has a number of its own.
        self._numbers = {root_inode: _ROOT}
        self._next = count(_ROOT + 1)

    def apply(self, record: Record) -> None:
        """Let one recorded thing happen."""
        match record.kind:
            case "C":
                self._files[self._born(record)] = _File()
            case "D":
                self._directories[self._born(record)] = _Directory()
            case "W":
                self._file(record).unsafe.append(_Write(record.number, record.data))
            case "T":
                self._file(record).unsafe.append(_Truncate(record.number))
            case "S":
                self._sync(self._numbers[record.inode])
            case "F":
                # The kernel reports a failed write-back once and then calls the pages clean.
                self._file(record).doomed = len(self._file(record).unsafe)
            case "R":
                number = self._find(record.path)
                self._name(record.path, None)
                self._name(record.second, number)
            case "L":
                self._name(record.second, self._find(record.path))
            case "U":
                self._name(record.path, None)
            case "M":
                return
            case _:
                raise ValueError(f"unknown record {record.kind}")

    def crash(self, loss: Loss, rng: random.Random) -> Image:
        """Return what a crash at this moment leaves."""
        image = Image()

        def names(number: int) -> dict[str, int]:
            return _names(self._directories[number], loss, rng)

        def content(number: int) -> bytes:
            return _content(self._files[number], loss, rng)

        self._walk(_ROOT, PurePosixPath(), names, content, image)
        return image

    def settle(self) -> None:
        """Let the kernel write everything back, as it does by itself after a while."""
        for number in (*self._files, *self._directories):
            self._sync(number)

    def open_questions(self) -> dict[Question, list[Answer]]:
        """Return what a crash would decide, each with all its answers; first what was safe.

        Each name is a question of its own: even the names of one directory may become safe in any
        order. Of data the answers are none, all, and some ways to tear it at sectors.
        """
        questions: dict[Question, list[Answer]] = {}
        for number, directory in self._directories.items():
            for name, _ in directory.unsafe:
                if Name(number, name) not in questions:
                    answers: list[Answer] = [directory.safe.get(name)]
                    answers += [now for other, now in directory.unsafe if other == name]
                    questions[Name(number, name)] = list(dict.fromkeys(answers))
        for number, file in self._files.items():
            if file.unsafe:
                questions[Data(number)] = list(dict.fromkeys(_ways_to_tear(file)))
        return questions

    def left(self, answers: Mapping[Question, Answer]) -> Image:
        """Return what is left after a crash that decided every question."""
        image = Image()
        decided: dict[int, dict[str, int]] = {}
        for question, answer in answers.items():
            if isinstance(question, Name):
                safe = self._directories[question.directory].safe
                names = decided.setdefault(question.directory, dict(safe))
                assert not isinstance(answer, bytes)
                _enter(names, question.name, answer)

        def names_of(number: int) -> dict[str, int]:
            return decided.get(number, self._directories[number].safe)

        def content(number: int) -> bytes:
            answer = answers.get(Data(number))
            return answer if isinstance(answer, bytes) else bytes(self._files[number].safe)

        self._walk(_ROOT, PurePosixPath(), names_of, content, image)
        return image

    def _born(self, record: Record) -> int:
        number = self._numbers[record.inode] = next(self._next)
        self._name(record.path, number)
        return number

    def _file(self, record: Record) -> _File:
        return self._files[self._numbers[record.inode]]

    def _walk(
        self,
        number: int,
        at: PurePosixPath,
        names: Callable[[int], dict[str, int]],
        content: Callable[[int], bytes],
        image: Image,
    ) -> None:
        for name, child in names(number).items():
            path = str(at / name)
            if child in self._directories:
                image.directories.append(path)
                self._walk(child, at / name, names, content, image)
                continue
            image.names[path] = child
            if child not in image.contents:
                image.contents[child] = content(child)

    def _sync(self, number: int) -> None:
        if number in self._files:
            file = self._files[number]
            for change in file.unsafe[file.doomed :]:
                _change(file.safe, change)
            file.unsafe.clear()
            file.doomed = 0
        else:
            directory = self._directories[number]
            directory.safe = dict(directory.now)
            directory.unsafe.clear()

    def _name(self, path: str, number: int | None) -> None:
        if not path:
            raise ValueError("a move across the border of the recorded directory is not modelled")
        parent = self._find(str(PurePosixPath(path).parent))
        self._directories[parent].set(PurePosixPath(path).name, number)

    def _find(self, path: str) -> int:
        number = _ROOT
        for part in PurePosixPath(path).parts:
            number = self._directories[number].now[part]
        return number


def _enter(names: dict[str, int], name: str, number: int | None) -> None:
    if number is None:
        names.pop(name, None)
    else:
        names[name] = number


def _names(directory: _Directory, loss: Loss, rng: random.Random) -> dict[str, int]:
    if loss in (Loss.NOTHING, Loss.DATA):
        return directory.now
    names = dict(directory.safe)
    if loss is Loss.SOME:
        for name, number in directory.unsafe[: rng.randint(0, len(directory.unsafe))]:
            _enter(names, name, number)
    return names


def _content(file: _File, loss: Loss, rng: random.Random) -> bytes:
    content = bytearray(file.safe)
    if loss in (Loss.NOTHING, Loss.NAMES):
        for change in file.unsafe:
            _change(content, change)
    elif loss is Loss.SOME:
        for change in file.unsafe:
            for piece in _sectors(change):
                if rng.random() < 0.5:
                    _change(content, piece)
    return bytes(content)


def _ways_to_tear(file: _File) -> list[Answer]:
    pieces = [piece for change in file.unsafe for piece in _sectors(change)]
    none = pieces[:0]
    kept = (none, pieces[:1], pieces[::2], pieces[1:], pieces[:-1], pieces)
    answers: list[Answer] = []
    for some in kept:
        content = bytearray(file.safe)
        for piece in some:
            _change(content, piece)
        answers.append(bytes(content))
    return answers


def _sectors(change: _Write | _Truncate) -> list[_Write | _Truncate]:
    """Cut a write where the disk's sectors end: each of them survives or not by itself."""
    if isinstance(change, _Truncate):
        return [change]
    pieces: list[_Write | _Truncate] = []
    start = change.offset
    end = change.offset + len(change.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        pieces.append(_Write(start, change.data[start - change.offset : stop - change.offset]))
        start = stop
    return pieces


def _change(content: bytearray, change: _Write | _Truncate) -> None:
    end = change.length if isinstance(change, _Truncate) else change.offset + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if isinstance(change, _Truncate):
        del content[end:]
    else:
        content[change.offset : end] = change.data
