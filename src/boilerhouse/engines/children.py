"""Objects that the operator made for another: what is the matter with each of them. Pure.

live object, its owner, what it should be ─► judged() ─► Child
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

Body = Mapping[str, Any]

# Finalizers that Kubernetes takes off by itself.
_KUBERNETES = ("foregroundDeletion", "orphan")


class State(StrEnum):
    """What is the matter with one object."""

    ABSENT = "absent"  # the server said so; a cache never does
    SOUND = "sound"
    TAMPERED = "tampered"  # not as it was written
    TERMINATING = "terminating"  # deleted, and not gone yet: it holds its name
    FOREIGN = "foreign"  # another owner's, with our name


class Child(Struct, frozen=True):
    """One object, as far as deciding goes."""

    state: State = State.ABSENT
    uid: str = ""
    version: str = ""
    held_by: tuple[str, ...] = ()  # finalizers of others

    @property
    def removable(self) -> bool:
        return self.state in (State.SOUND, State.TAMPERED)

    @property
    def wrong(self) -> bool:
        """Whether it must be written."""
        return self.state in (State.ABSENT, State.TAMPERED)


NOTHING = Child()


def judged(live: Body | None, owner: str, sound: Callable[[Body], bool]) -> Child:
    """Judge an object. It is ours if its controller has the owner's UID: a label is no proof."""
    if live is None:
        return NOTHING
    metadata = live["metadata"]
    others = tuple(one for one in metadata.get("finalizers") or () if one not in _KUBERNETES)
    owners = metadata.get("ownerReferences") or ()
    if not any(one.get("controller") and one["uid"] == owner for one in owners):
        state, others = State.FOREIGN, ()
    elif metadata.get("deletionTimestamp"):
        state = State.TERMINATING
    else:
        state = State.SOUND if sound(live) else State.TAMPERED
    return Child(state, metadata["uid"], metadata["resourceVersion"], others)


# Objects in which an entry too many changes what is meant.
_EXACT = ("selector", "matchLabels")


def matches(live: Body, wanted: Body) -> bool:
    """Whether a live object has everything that was written; a server adds its own beside it."""
    return (
        _has(live["metadata"].get("labels") or {}, wanted["metadata"]["labels"])
        and _has(live.get("data") or {}, wanted.get("data", {}), exact=True)
        and _has(live.get("spec") or {}, wanted.get("spec", {}))
    )


def _has(live: Any, wanted: Any, *, exact: bool = False) -> bool:
    if not wanted:
        return not live  # a server leaves out what is false, zero or empty
    if isinstance(wanted, Mapping):
        return (
            isinstance(live, Mapping)
            and (not exact or live.keys() == wanted.keys())
            and all(
                _has(live.get(key), value, exact=key in _EXACT) for key, value in wanted.items()
            )
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(_has(*pair) for pair in zip(live, wanted, strict=True))
        )
    return bool(live == wanted)
