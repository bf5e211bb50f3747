"""A container of a Pod made into what the sandbox layer starts: pure.

    spec.containers[i] + image + variables + mounts ─► build() ─► ContainerSpec | Refused

Where Kubernetes and the image both have a say, Kubernetes wins: command over entrypoint, args over
cmd, runAsUser over USER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.kubelet.container import (
    ContainerSpec,
    HostRoot,
    ImageRoot,
    Mount,
    RootFs,
)
from boilerhouse.embedded.kubelet.images.images import Image
from boilerhouse.embedded.kubelet.objects.environment import expand
from boilerhouse.platform.kube.kinds import ObjectMeta

Body = Mapping[str, Any]
HOST_USER = (1000, 1000)


class Refused(Exception):
    """A container that cannot be started as it is described; `reason` is for its waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Wanted:
    """One container and all that was found for it; `image` is None for `host`."""

    metadata: ObjectMeta
    pod: Body
    container: Body
    attempt: int
    image: Image | None
    user: tuple[int, int]  # the image's own: uid and gid
    variables: Mapping[str, str]
    mounts: tuple[Mount, ...]
    writable: Path  # where an image's changes go


def accompanied(spec: Body, built_in: Callable[[Body], bool]) -> bool:
    """Whether a built-in sidecar runs beside the containers of a Pod, and sees to its disk."""
    return any(
        container.get("restartPolicy") == "Always" and built_in(container)
        for container in spec.get("initContainers", ())
    )


def root_of(directory: Path, container: str) -> Path:
    """Return where the writable layer of a container of an image is, and its work directory."""
    return directory / "roots" / container


def build(wanted: Wanted) -> ContainerSpec:
    """Return what to start; raises `Refused`."""
    container, pod = wanted.container, wanted.pod
    security = container.get("securityContext", {})
    _check_capabilities(security)
    uid, gid = user(pod, container, wanted.user)
    limits = container.get("resources", {}).get("limits", {})
    return ContainerSpec(
        pod_uid=wanted.metadata.uid,
        name=container["name"],
        attempt=wanted.attempt,
        root=_root(wanted),
        argv=_words(wanted),
        env=wanted.variables,
        workdir=_workdir(wanted),
        uid=uid,
        gid=gid,
        mounts=wanted.mounts,
        hostname=pod.get("hostname") or wanted.metadata.name[:63].rstrip("-."),
        memory_bytes=parse(str(limits["memory"])).whole if "memory" in limits else None,
        cpu=float(parse(str(limits["cpu"]))) if "cpu" in limits else None,
        tty=bool(container.get("tty")),
        stdin=bool(container.get("stdin")),
        read_only_root=bool(security.get("readOnlyRootFilesystem")),
    )


def may_stand_by(spec: ContainerSpec, container: Body) -> bool:
    """Whether a container may be made before its volumes hold what its program will find in them.

    Not where something below a volume's own directory is bound or entered, since it may be taken
    away and made again meanwhile; nor on an image, whose writable layer is the life's before it.
    """
    if not isinstance(spec.root, HostRoot):
        return False
    if any(mount.get("subPath") for mount in container.get("volumeMounts", ())):
        return False
    workdir = PurePosixPath(spec.workdir)
    if not workdir.is_absolute() or ".." in workdir.parts:
        return False
    return not any(PurePosixPath(mount.target) in workdir.parents for mount in spec.mounts)


def _check_capabilities(security: Body) -> None:
    added = security.get("capabilities", {}).get("add", [])
    if added:
        raise Refused(
            "CreateContainerConfigError",
            f"capabilities are never given here: {', '.join(map(str, added))}",
        )


def user(pod: Body, container: Body, default: tuple[int, int]) -> tuple[int, int]:
    """Return who a container's process is, inside; `default` is its image's own user."""
    security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    uid = int(security.get("runAsUser", default[0]))
    gid = int(security.get("runAsGroup", default[1]))
    if security.get("runAsNonRoot") and uid == 0:
        raise Refused(
            "CreateContainerConfigError",
            "container has runAsNonRoot and image will run as root",
        )
    return uid, gid


def _root(wanted: Wanted) -> RootFs:
    if wanted.image is None:
        return HostRoot()
    return ImageRoot(wanted.image.layers, wanted.writable / "upper", wanted.writable / "work")


def _words(wanted: Wanted) -> tuple[str, ...]:
    command = [expand(word, wanted.variables) for word in wanted.container.get("command", ())]
    args = [expand(word, wanted.variables) for word in wanted.container.get("args", ())]
    config = None if wanted.image is None else wanted.image.config
    if not command and config is not None:
        command = list(config.entrypoint)
        args = args or list(config.cmd)
    if not command and not args:
        raise Refused("CreateContainerError", "no command specified")
    return tuple(command + args)


def _workdir(wanted: Wanted) -> str:
    given = wanted.container.get("workingDir")
    if given:
        return str(given)
    return "/" if wanted.image is None else wanted.image.config.workdir
