"""A Pod's volumes as directories of this machine, and their mounts.

    DIR/pods/<uid>/volumes/<name>     emptyDir: kept as long as the Pod, whatever happens to us
    <memory>/<uid>/<name>             emptyDir in memory, secret, configMap: never on a disk
    DIR/snapshots, DIR/volumes/<uid>  persistentVolumeClaim

Files of Secrets and ConfigMaps are written when the Pod starts (also after a restart of ours) and
do not follow later changes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from boilerhouse.embedded.kubelet.container import Mount
from boilerhouse.embedded.kubelet.kernel.memory import Memory
from boilerhouse.embedded.kubelet.kernel.trees import keep, remove_tree
from boilerhouse.embedded.kubelet.objects.containerspec import Refused
from boilerhouse.embedded.kubelet.objects.references import Missing, References, Source
from boilerhouse.embedded.kubelet.volumes.persistentclaims import PersistentClaims

Body = Mapping[str, Any]
Own = Callable[[Path], None]
Make = Callable[[], None]  # blocks


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume that is ready to be mounted."""

    path: Path
    read_only: bool


class Volumes:
    """The volumes of one Pod."""

    def __init__(
        self,
        directory: Path,
        uid: str,
        memory: Memory,
        claims: PersistentClaims,
        references: References,
    ) -> None:
        self._directory = directory / "volumes"
        self._uid = uid
        self._memory = memory
        self._claims = claims
        self._references = references

    async def prepare(self, spec: Body, sandboxed: set[str], own: Own) -> dict[str, Volume]:
        """Make every volume ready; raises `Missing` for what is not there (yet).

        Those named in `sandboxed` are given to the tenant by `own`; the others are ours alone.
        """
        wanted = {volume["name"]: volume for volume in spec.get("volumes", ())}
        found = await asyncio.gather(
            *(
                self._one(volume, own if name in sandboxed else keep)
                for name, volume in wanted.items()
            ),
            return_exceptions=True,  # none goes on after this, whatever happens to another
        )
        ready = {}
        making = []
        for name, one in zip(wanted, found, strict=True):
            if isinstance(one, BaseException):
                raise one
            ready[name], make = one
            making.append(make)
        await asyncio.to_thread(_call, making)
        return ready

    async def _one(self, volume: Body, own: Own) -> tuple[Volume, Make]:
        """Return a volume, and how to make it, once it is known what is in it."""
        name = volume["name"]
        if "emptyDir" in volume:
            in_memory = volume["emptyDir"].get("medium") == "Memory"
            parent = self._in_memory() if in_memory else self._directory
            return Volume(parent / name, read_only=False), partial(_empty, parent / name, own)
        if "persistentVolumeClaim" in volume:
            given = volume["persistentVolumeClaim"]
            path = await self._claims.use(
                self._references.namespace, given["claimName"], self._uid, own
            )
            return Volume(path, read_only=bool(given.get("readOnly"))), _is_there
        source: Source = "secret" if "secret" in volume else "configmap"
        given = volume["secret"] if source == "secret" else volume["configMap"]
        wanted = given.get("secretName" if source == "secret" else "name", "")
        content = await self._references.content(
            source, wanted, optional=bool(given.get("optional"))
        )
        files = _files(source, wanted, content, given)
        path = self._in_memory() / name
        return Volume(path, read_only=True), partial(_write_files, path, files, own)

    def _in_memory(self) -> Path:
        return self._memory.directory(self._uid)

    async def leave(self, spec: Body) -> None:
        """Take back Secrets and ConfigMaps: they are written anew when the Pod runs again."""
        for volume in spec.get("volumes", ()):
            if "secret" in volume or "configMap" in volume:
                await asyncio.to_thread(self._memory.remove, self._uid, volume["name"])

    def let_go(self) -> None:
        """Free the claims: they keep their data. What was the Pod's own is removed with it."""
        self._claims.let_go(self._uid)


def mounts(container: Body, volumes: Mapping[str, Volume], own: Own) -> tuple[Mount, ...]:
    """Return a container's mounts; raises `Refused`. Blocks if there are parts to be made."""
    return tuple(_mount(given, volumes[given["name"]], own) for given in mounts_of(container))


def has_parts(container: Body) -> bool:
    """Whether some mount is of a part of its volume, which may have to be made."""
    return any(mount.get("subPath") for mount in mounts_of(container))


def mounts_of(container: Body) -> list[Body]:
    return list(container.get("volumeMounts", ()))


def writable_directories(spec: Body, sandboxed: Iterable[Body]) -> list[str]:
    """Return the names of the volumes on disk of a Pod's own that its tenant can write to."""
    writable = {
        mount["name"]
        for container in sandboxed
        for mount in mounts_of(container)
        if not mount.get("readOnly")
    }
    return [
        volume["name"]
        for volume in spec.get("volumes", ())
        if volume["name"] in writable
        and "emptyDir" in volume
        and volume["emptyDir"].get("medium") != "Memory"
    ]


def _mount(given: Body, volume: Volume, own: Own) -> Mount:
    read_only = volume.read_only or bool(given.get("readOnly"))
    part = given.get("subPath", "").strip("/")
    if not part:
        return Mount(volume.path, given["mountPath"], read_only)
    # Deeper, and the tenant could put a link in the middle of the way.
    if "/" in part or part in (".", ".."):
        raise Refused(
            "CreateContainerConfigError",
            f"subPath {given['subPath']!r}: only a name without slashes is supported here",
        )
    source = volume.path / part
    if not os.path.lexists(source):
        source.mkdir(mode=0o777)
        own(source)
    return Mount(source, given["mountPath"], read_only)


def _call(making: Iterable[Make]) -> None:
    for make in making:
        make()


def _is_there() -> None:
    """Make nothing: whoever looks after it has made it."""


def _empty(path: Path, own: Own) -> None:
    path.mkdir(mode=0o777, parents=True, exist_ok=True)
    path.chmod(0o777)  # whatever the umask took away
    own(path)


def _files(
    source: Source, name: str, content: Mapping[str, bytes], given: Body
) -> dict[str, tuple[bytes, int]]:
    """Return the files of a volume by their path: content and mode."""
    mode = int(given.get("defaultMode", 0o644))
    items = given.get("items")
    if items is None:
        return {key: (value, mode) for key, value in content.items()}
    files = {}
    for item in items:
        if item["key"] in content:
            files[item["path"]] = (content[item["key"]], int(item.get("mode", mode)))
        elif not given.get("optional"):
            raise Missing(f"references non-existent {source} key: {item['key']} of {name}")
    return files


def _write_files(path: Path, files: Mapping[str, tuple[bytes, int]], own: Own) -> None:
    remove_tree(path)
    path.mkdir(mode=0o755, parents=True)
    path.chmod(0o755)
    own(path)
    for name, (content, mode) in files.items():
        file = path / name
        for parent in reversed(file.relative_to(path).parents[:-1]):
            (path / parent).mkdir(mode=0o755, exist_ok=True)
            own(path / parent)
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as opened:
            opened.write(content)
            os.fchmod(fd, mode)
        own(file)
