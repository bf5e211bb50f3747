"""Names of what belongs to an engine, and how long an engine's own name may be.

engine ─┬─► <engine>-service          what clients use; it selects one generation
        └─► <engine>-g<N>             StatefulSet of generation N
              ├─► <engine>-g<N>-hl      headless Service: a name for each Pod
              ├─► <engine>-g<N>-config  ConfigMap
              └─► <engine>-g<N>-pdb     PodDisruptionBudget
"""

from __future__ import annotations

import re

LAST_GENERATION = 999_999
MOST_REPLICAS = 9_999

_STATEFULSET_LIMIT = 52  # the label controller-revision-hash adds eleven characters to it
_HOST_LIMIT = 63
# The name must leave room for the longest generation, and for the ordinal in a Pod's host name.
NAME_LIMIT = min(
    _STATEFULSET_LIMIT - len(f"-g{LAST_GENERATION}"),
    _HOST_LIMIT - len(f"-g{LAST_GENERATION}-{MOST_REPLICAS - 1}"),
    _HOST_LIMIT - len(f"-g{LAST_GENERATION}-config"),
)


def statefulset(engine: str, generation: int) -> str:
    return f"{engine}-g{generation}"


def headless(engine: str, generation: int) -> str:
    return f"{statefulset(engine, generation)}-hl"


def config(engine: str, generation: int) -> str:
    return f"{statefulset(engine, generation)}-config"


def budget(engine: str, generation: int) -> str:
    return f"{statefulset(engine, generation)}-pdb"


def service(engine: str) -> str:
    return f"{engine}-service"


def hosts(engine: str, namespace: str, generation: int, replicas: int) -> list[str]:
    """Return the host names of a generation's Pods, by ordinal."""
    domain = f"{headless(engine, generation)}.{namespace}.svc.cluster.local"
    return [f"{statefulset(engine, generation)}-{n}.{domain}" for n in range(replicas)]


_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def generation_of(label: str | None) -> int | None:
    """Read the number in a generation label; None if it is no number of ours."""
    return int(label) if label is not None and _NUMBER.fullmatch(label) else None


def name_fault(engine: str) -> str:
    """Say what is wrong with an engine's name; empty if nothing is."""
    if len(engine) <= NAME_LIMIT:
        return ""
    return (
        f"metadata.name: must have at most {NAME_LIMIT} characters: names of Pods and labels are"
        f" made of it and of the generation's number (up to {LAST_GENERATION})"
    )
