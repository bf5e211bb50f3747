"""What an engine, its class and its instance ask for together. Pure.

engine's spec, class, instance, bounds ─► resolve() ─► Resolved: policy, faults, or all to render
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from boilerhouse.engines.classes.model import ClassSpec
from boilerhouse.engines.durations import parsed
from boilerhouse.engines.engines import drift
from boilerhouse.engines.engines.model import EngineSpec
from boilerhouse.engines.engines.names import name_fault
from boilerhouse.engines.engines.ready import (
    BOUNDS_EXCEEDED,
    CLASS_MISSING,
    CLASS_UNREADY,
    NAME_TOO_LONG,
    TEMPLATE_REJECTED,
)
from boilerhouse.engines.engines.seen import Gate, Policy, Wanted
from boilerhouse.engines.fields import DeadlineAction, DrainAction, Rollout, Shared, Storage
from boilerhouse.engines.profile import FIREBOLT, Dependency, DrainType, Profile
from boilerhouse.engines.template import config, hashes
from boilerhouse.engines.template.merge import Layer, over, split
from boilerhouse.engines.template.rules import Bounds, FieldError, clashes, excesses, faults

DRAIN_INTERVAL = timedelta(seconds=5)


class ClassFound(Struct, frozen=True):
    """The class that an engine names."""

    name: str
    spec: ClassSpec
    refused: str = ""  # why no engine can be made of it, by its own Ready condition


class InstanceFound(Struct, frozen=True):
    """The instance that an engine names."""

    name: str
    id: str = ""
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """Everything that a generation is rendered from."""

    replicas: int
    profile: Profile
    template: Layer
    config: dict[str, Any]
    config_hash: str
    class_hash: str
    storage: Storage
    instance_id: str
    endpoint: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Resolved:
    """What is asked for, and what is wrong with it."""

    policy: Policy
    profile: Profile | None  # None: the class that would say is not there
    instance_fault: str | None
    faults: tuple[Gate, ...]
    made: Made | None  # None: something is wrong

    @property
    def instance_needed(self) -> bool:
        return self.profile is None or self.profile.instance == Dependency.REQUIRED


def resolve(
    name: str,
    spec: EngineSpec,
    klass: ClassFound | None,
    instance: InstanceFound | None,
    bounds: Bounds,
    restart: str = "",
) -> Resolved:
    """Put together what is asked for; the class and the instance are None if they are not there."""
    layers: tuple[Shared, ...] = (spec,) if klass is None else (spec, klass.spec)
    profile = _profile(spec, klass)
    policy = _policy(layers, profile)
    instance_fault = _instance_fault(spec, profile, instance)
    found = tuple(_faults(name, spec, klass, profile, bounds))
    made = None
    if profile is not None and instance_fault is None and not found:
        made = _made(spec, klass, profile, instance, restart)
    return Resolved(policy, profile, instance_fault, found, made)


def first_set(layers: tuple[Shared, ...], field: str, otherwise: Any) -> Any:
    """Return the engine's own value of a field, or the class's, or a default."""
    said = (getattr(layer, field) for layer in layers)
    return next((value for value in said if value is not None), otherwise)


def _profile(spec: EngineSpec, klass: ClassFound | None) -> Profile | None:
    if klass is None:
        return FIREBOLT if spec.engine_class_ref is None else None
    return klass.spec.profile or FIREBOLT


def _policy(layers: tuple[Shared, ...], profile: Profile | None) -> Policy:
    graceful = first_set(layers, "rollout", Rollout.GRACEFUL) == Rollout.GRACEFUL
    checked = first_set(layers, "drain_check_enabled", otherwise=True)
    askable = profile is None or profile.drain.type != DrainType.NONE
    interval = first_set(layers, "drain_check_interval", None)
    timeout = first_set(layers, "drain_timeout", None)
    deadline = first_set(layers, "progress_deadline", None)
    return Policy(
        drain=graceful and checked and askable,
        drain_interval=DRAIN_INTERVAL if interval is None else parsed(interval),
        drain_timeout=None if timeout is None else parsed(timeout),
        drain_action=first_set(layers, "drain_timeout_action", DrainAction.WAIT),
        deadline=None if deadline is None else parsed(deadline),
        deadline_action=first_set(layers, "progress_deadline_action", DeadlineAction.WAIT),
    )


def _instance_fault(
    spec: EngineSpec, profile: Profile | None, instance: InstanceFound | None
) -> str | None:
    if profile is not None and profile.instance == Dependency.NONE:
        return None
    if spec.instance_ref is None:
        return "spec.instanceRef is not set, and the engine needs an instance"
    if instance is None:
        return f"the FireboltInstance {spec.instance_ref} is not there"
    if not instance.id:
        return f"the FireboltInstance {instance.name} has no id yet"
    if not instance.endpoint and spec.metadata_endpoint_override is None:
        return f"the FireboltInstance {instance.name} has no metadata endpoint yet"
    return None


def _faults(
    name: str,
    spec: EngineSpec,
    klass: ClassFound | None,
    profile: Profile | None,
    bounds: Bounds,
) -> Iterator[Gate]:
    """Yield what is wrong in the order in which it is told."""
    if profile is None:
        yield Gate(CLASS_MISSING, f"the FireboltEngineClass {spec.engine_class_ref} is not there")
    template = {} if klass is None else klass.spec.template
    judged_by = profile or FIREBOLT
    inherited = "; ".join(map(str, faults(template, judged_by)))
    if klass is not None and (refused := klass.refused or inherited):
        yield Gate(CLASS_UNREADY, f"the FireboltEngineClass {klass.name}: {refused}")
    if fault := name_fault(name):
        yield Gate(NAME_TOO_LONG, fault)
    found = faults(spec.template, judged_by)
    sound = not found and not inherited
    if sound:
        found = clashes(template, spec.template, judged_by)
    if found:
        yield Gate(TEMPLATE_REJECTED, "; ".join(map(str, found)))
    if sound and (exceeded := excesses_of(spec, klass, judged_by, bounds)):
        yield Gate(BOUNDS_EXCEEDED, "; ".join(map(str, exceeded)))


def excesses_of(
    spec: EngineSpec, klass: ClassFound | None, profile: Profile, bounds: Bounds
) -> list[FieldError]:
    """Return what an engine's own resources, or those of its class, have above the bounds."""
    container = profile.container
    own = over(Layer(), split(spec.template, container)).server.get("resources")
    if own is not None or klass is None:
        return excesses(own or {}, bounds, container)
    inherited = split(klass.spec.template, container).server.get("resources") or {}
    return excesses(inherited, bounds, container, klass.name)


def _made(
    spec: EngineSpec,
    klass: ClassFound | None,
    profile: Profile,
    instance: InstanceFound | None,
    restart: str,
) -> Made:
    shared = () if klass is None else (klass.spec,)
    below = {} if klass is None else klass.spec.template
    template = over(split(below, profile.container), split(spec.template, profile.container))
    layers = [layer.custom_engine_config or {} for layer in (*shared, spec)]
    custom = config.merged(layers[0], layers[1]) if len(layers) > 1 else layers[0]
    custom, ignored = config.stripped(custom, profile.config.owned_paths)
    storage: Storage = first_set((spec, *shared), "storage", Storage())
    instance_id = "" if instance is None else instance.id
    endpoint = spec.metadata_endpoint_override or ("" if instance is None else instance.endpoint)
    config_hash, class_hash = hashes.digest(custom), hashes.digest(below)
    # How a server is asked about its work is no part of what it is.
    plain = msgspec.to_builtins(profile)
    plain.pop("drain", None)
    values = {
        "replicas": spec.replicas,
        "config": config_hash,
        "class": class_hash,
        "storage": msgspec.to_builtins(storage),
        "instance.id": instance_id,
        "instance.endpoint": endpoint,
        "profile": plain,
        "restart": restart,
    }
    stamp = drift.inputs(values, template)
    return Made(
        replicas=spec.replicas,
        profile=profile,
        template=template,
        config=custom,
        config_hash=config_hash,
        class_hash=class_hash,
        storage=storage,
        instance_id=instance_id,
        endpoint=endpoint,
        wanted=Wanted(hashes.digest(dict(stamp)), stamp, ignored),
    )


def image_of(made: Made) -> str:
    """Return the image of the server: the template's, or the profile's."""
    return str(made.template.server.get("image") or made.profile.image)
