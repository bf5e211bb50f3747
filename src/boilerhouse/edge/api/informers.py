"""The live copies that the API reads: those of the operator where both run in one process.

list, stats, events, tokens ◄── Informers ◄── the Kubernetes API

A list that is read from a cache is honest only while the cache is kept up. One that was never
filled, or has heard nothing for long, answers 503 instead of yesterday's world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Dynamic, Object, Pod
from boilerhouse.platform.kube.status import Unavailable
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.pools.objects import Pool

T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class Informers:
    """One informer per kind that the API tells of. `pods` holds managed ones only."""

    pods: Informer[Pod]
    claims: Informer[Claim]
    workloads: Informer[Dynamic]
    pools: Informer[Pool]
    triggers: Informer[Dynamic]

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter((self.pods, self.claims, self.workloads, self.pools, self.triggers))

    def complaints(self) -> list[str]:
        """Say which of them cannot be trusted now, and why."""
        return [
            f"{informer.resource}: {_why(informer)}" for informer in self if not _fresh(informer)
        ]


def listed(informer: Informer[T]) -> list[T]:
    """Return everything an informer holds, by name; `Unavailable` if it cannot be trusted."""
    if not _fresh(informer):
        raise Unavailable(f"{informer.resource}: {_why(informer)}")
    return [informer.cache[key] for key in sorted(informer.cache)]


def _fresh(informer: Informer[Any]) -> bool:
    return informer.synced.is_set() and informer.healthy()


def _why(informer: Informer[Any]) -> str:
    if not informer.synced.is_set():
        said = "not listed yet"
    else:
        said = f"heard nothing for {informer.silence():.0f} s"
    return f"{said}: {informer.last_error}" if informer.last_error else said
