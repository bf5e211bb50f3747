"""Engines as they are read from an API, and an API small enough to hold one."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from boilerhouse.engines.classes.model import ClassSpec
from boilerhouse.engines.engines.assemble import PodRead, Reads
from boilerhouse.engines.engines.model import EngineSpec, EngineStatus
from boilerhouse.engines.engines.resolve import (
    ClassFound,
    InstanceFound,
    Made,
    Resolved,
    resolve,
)
from boilerhouse.engines.engines.seen import EngineSeen
from boilerhouse.engines.names import ENGINE_FINALIZER
from boilerhouse.engines.template.rules import Bounds
from tests.unit.engines.engines.seeing import NOW

Body = dict[str, Any]

INSTANCE = InstanceFound("i", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "i-metadata.ns:7000")
ENGINE = EngineSeen("e", "ns", "uid-e", "7", 3, 1, EngineStatus())


def spec(**fields: Any) -> EngineSpec:
    raw = {"instanceRef": "i", "replicas": 1, **fields}
    return msgspec.convert(
        {key: value for key, value in raw.items() if value is not None}, EngineSpec
    )


def klass(refused: str = "", **fields: Any) -> ClassFound:
    return ClassFound("c", msgspec.convert({"template": {}, **fields}, ClassSpec), refused)


def resolved(
    of: EngineSpec | None = None,
    by: ClassFound | None = None,
    *,
    instance: InstanceFound | None = INSTANCE,
    bounds: Bounds | None = None,
    name: str = "e",
    restart: str = "",
) -> Resolved:
    return resolve(name, of or spec(), by, instance, bounds or Bounds(), restart)


def made(of: EngineSpec | None = None, by: ClassFound | None = None) -> Made:
    found = resolved(of, by)
    assert found.made is not None, (found.faults, found.instance_fault)
    return found.made


def live(body: Body, number: int = 1, **metadata: Any) -> Body:
    """An object as a server returns it."""
    stored = copy.deepcopy(body)
    stored["metadata"] |= {"uid": f"uid-{body['metadata']['name']}", "resourceVersion": str(number)}
    stored["metadata"] |= {"generation": 1, **metadata}
    return stored


def reads(*objects: Body, **changes: Any) -> Reads:
    fields: dict[str, Any] = {
        "now": NOW,
        "name": "e",
        "namespace": "ns",
        "uid": "uid-e",
        "version": "7",
        "generation": 3,
        "spec": spec(),
        "status": EngineStatus(),
        "annotations": {},
        "finalizers": (ENGINE_FINALIZER,),
        "deleting": False,
        "klass": None,
        "instance": INSTANCE,
        "objects": objects,
    }
    return Reads(**{**fields, **changes})


def pod(name: str, owner: str, *, ready: bool = True, terminating: bool = False) -> PodRead:
    return PodRead(name, owner, ready, terminating)
