"""Large schemas are compiled beside the event loop, once, and found again when they are needed.

write of a CRD ─► judge, build ─► small: compiled on the spot
                               └► large: NeedsCompiling ─► a thread compiles ─► the write is tried
                                  again from its beginning, and finds what was compiled

A definition is judged and stored in one breath, on the newest state, so nothing can be awaited in
its midst; and to compile three megabytes of rules takes seconds. Where a schema that is not known
yet is met inside of `beside_the_loop`, the write is given up instead, before it has changed
anything. A thread has the interpreter for a millisecond at a time, then it is the loop's turn.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import msgspec

from boilerhouse.embedded.apiserver.cel.rules import Rules
from boilerhouse.embedded.apiserver.schemas.node import Node
from boilerhouse.embedded.apiserver.schemas.schema import Schema
from boilerhouse.platform.kube.status import Cause

T = TypeVar("T")
Judge = Callable[[Mapping[str, Any], str, bool], tuple[Node | None, list[Cause]]]

SMALL = 8 << 10  # bytes of a schema that takes some milliseconds at most
_KEPT = 4  # large schemas; what is served is held by its kind
_TRIES = 3

_beside: ContextVar[bool] = ContextVar("beside the loop", default=False)


class Built(NamedTuple):
    """What a kind needs of its schema."""

    schema: Schema
    rules: Rules


class NeedsCompiling(Exception):
    """A schema must be compiled before the write can be judged: `compile` does it, and blocks."""

    def __init__(self, compile_: Callable[[], object]) -> None:
        super().__init__("a schema must be compiled first")
        self.compile = compile_


class _Kept(OrderedDict[tuple[object, ...], Any]):
    """The results of the last few large schemas."""

    def get_or_make(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        if key in self:
            self.move_to_end(key)
            found: T = self[key]
            return found
        made = make()
        self[key] = made
        while len(self) > 2 * _KEPT:
            self.popitem(last=False)
        return made


_kept = _Kept()


def judged(
    judge: Judge, schema: Mapping[str, Any], path: str, status: bool
) -> tuple[Node | None, list[Cause]]:
    """Return the schema's root and what is wrong with it, as `judge` says."""
    digest = _digest(schema)
    if digest is None:
        return judge(schema, path, status)
    key = (digest, path, status)
    if _beside.get() and key not in _kept:

        def compile_() -> None:
            _, causes = _kept.get_or_make(key, lambda: judge(schema, path, status))
            if not causes:
                _kept.get_or_make((digest,), lambda: _build(schema))

        raise NeedsCompiling(compile_)
    return _kept.get_or_make(key, lambda: judge(schema, path, status))


def built(schema: Mapping[str, Any]) -> Built:
    """Return what a kind needs of an accepted schema."""
    digest = _digest(schema)
    if digest is None:
        return _build(schema)
    return _kept.get_or_make((digest,), lambda: _build(schema))


def _build(schema: Mapping[str, Any]) -> Built:
    return Built(Schema.compile(schema), Rules.compile(schema))


def _digest(schema: Mapping[str, Any]) -> bytes | None:
    """Tell large schemas apart by their content; None for a small one."""
    written = msgspec.json.encode(schema)
    return None if len(written) <= SMALL else hashlib.sha256(written).digest()


class Compiler:
    """Compiles for the writes of one server, one schema at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def beside_the_loop(self, write: Callable[[], Awaitable[T]]) -> T:
        """Do a write that may need a schema; it is begun again once that is compiled."""
        token = _beside.set(True)
        try:
            for _ in range(_TRIES):
                try:
                    return await write()
                except NeedsCompiling as needed:
                    async with self._turn:
                        await asyncio.to_thread(needed.compile)
        finally:
            _beside.reset(token)
        return await write()  # what is needed was pushed out by others, again and again
