"""What was seen and what was decided, for the last passes of each object.

controller ──► Recorder ──► "why is my claim still Pending?"
                   └──────► bundle (JSON) ──► replay() through the production `decide`, offline

Passes keep references to the frozen `Seen` and `Plan`, so recording costs nothing on the hot path;
they become JSON only when somebody asks. For a replay a `Seen` must be something msgspec can build
again: Structs, frozen dataclasses, enums, datetimes and plain collections. Secrets never belong in
a `Seen`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

S = TypeVar("S")

DEPTH = 16
OBJECTS = 4096


class Pass(msgspec.Struct, frozen=True):
    """One trip through read → decide → apply; `result` is the outcome's word or the error text."""

    at: datetime
    seen: object
    plan: object
    result: str


class Recorder:
    """A ring of passes per object, bounded both ways: the object longest untouched goes first."""

    def __init__(self, *, depth: int = DEPTH, objects: int = OBJECTS) -> None:
        self._depth = depth
        self._objects = objects
        self._rings: OrderedDict[tuple[str, Hashable], deque[Pass]] = OrderedDict()

    def record(self, controller: str, key: Hashable, entry: Pass) -> None:
        ring = self._rings.get((controller, key))
        if ring is None:
            ring = self._rings[controller, key] = deque(maxlen=self._depth)
            if len(self._rings) > self._objects:
                self._rings.popitem(last=False)
        else:
            self._rings.move_to_end((controller, key))
        ring.append(entry)

    def passes(self, controller: str, key: Hashable) -> list[Pass]:
        """Return the recorded passes of one object, oldest first."""
        return list(self._rings.get((controller, key), ()))

    def bundle(self, controller: str, key: Hashable) -> bytes:
        """Render the passes of one object as JSON, for people and for `replay`."""
        entries = [
            {
                "at": entry.at,
                "seen": entry.seen,
                "plan": described(entry.plan),
                "result": entry.result,
            }
            for entry in self.passes(controller, key)
        ]
        return msgspec.json.encode({"controller": controller, "key": key, "passes": entries})


@dataclass(frozen=True, slots=True)
class Divergence:
    """A recorded pass that today's `decide` would answer differently."""

    index: int
    recorded: Any
    decided: Any


def replay(
    bundle: bytes, seen_type: type[S], decide: Callable[[S], object]
) -> tuple[int, list[Divergence]]:
    """Run recorded passes through `decide`; return how many ran and where the plans differ.

    Passes that never got as far as a `Seen` are left out of the count.
    """
    replayed = 0
    divergences = []
    for index, entry in enumerate(msgspec.json.decode(bundle)["passes"]):
        if entry["seen"] is None:
            continue
        replayed += 1
        seen = msgspec.convert(entry["seen"], seen_type)
        decided = described(decide(seen))
        if decided != entry["plan"]:
            divergences.append(Divergence(index, entry["plan"], decided))
    return replayed, divergences


def described(value: object) -> object:
    """Render a plan with the class's name beside the fields: its verbs may have fields alike."""
    names: Iterable[str] | None = None
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
    if names is not None:
        shown = {name: described(getattr(value, name)) for name in names}
        return {"verb": type(value).__name__, **shown}
    if isinstance(value, tuple | list):
        return [described(item) for item in value]
    return msgspec.to_builtins(value)
