"""What the helper's objects need: pure.

Seen (secret, volume claim, Pod) ─► decide ─► steps

A Pod that has ended, or is not the one that would be built today, goes; one that is gone is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PodSeen:
    """The helper's Pod, as the server knows it."""

    uid: str
    version: str
    template: str
    ended: bool
    terminating: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything a decision may look at. `wanted`: the template hash of today."""

    secret_uid: str | None
    volume_claim: bool
    pod: PodSeen | None
    wanted: str | None  # None as long as there is no Secret, which it depends on


@dataclass(frozen=True, slots=True)
class Create:
    """Make one of the objects."""

    what: Literal["secret", "volume claim", "pod"]


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete exactly the Pod that was seen."""

    uid: str
    version: str
    why: str


Step = Create | DeletePod
Plan = tuple[Step, ...]  # empty: all is as it should be


def decide(seen: Seen) -> Plan:
    """Say what is missing. The Pod comes last: it starts only with what it mounts."""
    steps: list[Step] = []
    if seen.secret_uid is None:
        steps.append(Create("secret"))
    if not seen.volume_claim:
        steps.append(Create("volume claim"))
    if steps:
        return tuple(steps)
    if seen.pod is None:
        return (Create("pod"),)
    if seen.pod.terminating:
        return ()  # its end is an event, and the next pass sees it
    if seen.pod.ended:
        return (DeletePod(seen.pod.uid, seen.pod.version, "it has ended"),)
    if seen.pod.template != seen.wanted:
        return (DeletePod(seen.pod.uid, seen.pod.version, "it was built from another template"),)
    return ()
