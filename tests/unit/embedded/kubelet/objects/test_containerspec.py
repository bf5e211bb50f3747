"""A container of a Pod becomes what the sandbox layer starts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.container import ContainerSpec, HostRoot, ImageRoot, Mount
from boilerhouse.embedded.kubelet.images.imageconfig import ImageConfig
from boilerhouse.embedded.kubelet.images.images import Image
from boilerhouse.embedded.kubelet.objects.containerspec import Refused, Wanted, build, may_stand_by
from boilerhouse.platform.kube.kinds import ObjectMeta

META = ObjectMeta("web", "default", uid="u")


def image(**config: Any) -> Image:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    return Image("x:latest", "sha256:d", (Path("/l"),), ImageConfig(("l",), **config), 1, made)


def built(found: Image | None = None, pod: Any = None, **container: Any) -> ContainerSpec:
    given = {"name": "main", **container}
    user = (1000, 1000) if found is None else (5, 6) if found.config.user else (0, 0)
    return build(Wanted(META, pod or {}, given, 3, found, user, {"A": "1"}, (), Path("/w")))


def test_a_host_container() -> None:
    """Everything said in the Pod is in the description; words have their variables."""
    spec = built(
        command=["/bin/sh", "$(A)"],
        args=["$(B)"],
        workingDir="/tmp",
        resources={"limits": {"memory": "64Mi", "cpu": "250m"}},
        securityContext={"runAsUser": 7, "readOnlyRootFilesystem": True},
        tty=True,
        stdin=True,
    )
    assert spec == ContainerSpec(
        pod_uid="u",
        name="main",
        attempt=3,
        root=HostRoot(),
        argv=("/bin/sh", "1", "$(B)"),
        env={"A": "1"},
        workdir="/tmp",
        uid=7,
        gid=1000,
        hostname="web",
        memory_bytes=64 * 1024 * 1024,
        cpu=0.25,
        tty=True,
        stdin=True,
        read_only_root=True,
    )


def test_an_images_words_fill_in() -> None:
    """command replaces entrypoint and cmd; args alone replace cmd; user and directory likewise."""
    made = image(entrypoint=("/run",), cmd=("serve",), user="5:6", workdir="/srv")
    plain = built(made)
    assert (plain.argv, plain.uid, plain.gid, plain.workdir) == (("/run", "serve"), 5, 6, "/srv")
    assert plain.root == ImageRoot((Path("/l"),), Path("/w/upper"), Path("/w/work"))
    assert built(made, args=["x"]).argv == ("/run", "x")
    assert built(made, command=["y"]).argv == ("y",)
    pod = {"securityContext": {"runAsUser": 8}, "hostname": "h"}
    assert (built(made, pod).uid, built(made, pod).hostname) == (8, "h")


def test_what_cannot_be_is_refused() -> None:
    """No command, root where it is forbidden, capabilities: named, with the reason to show."""
    with pytest.raises(Refused, match="no command"):
        built()
    with pytest.raises(Refused, match="runAsNonRoot") as root:
        built(image(cmd=("x",)), securityContext={"runAsNonRoot": True})
    assert root.value.reason == "CreateContainerConfigError"
    with pytest.raises(Refused, match="SYS_ADMIN"):
        built(command=["x"], securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})


@pytest.mark.parametrize(
    ("workdir", "mount", "allowed"),
    [
        ("/", {}, True),
        ("/tmp", {}, True),
        ("/workspace", {}, True),
        ("/workspaces/a", {}, True),
        ("/workspace/a", {}, False),
        ("/workspace/a/..", {}, False),
        ("workspace", {}, False),
        ("/", {"subPath": "part"}, False),
    ],
)
def test_who_may_be_made_ready_before_its_files_are_there(
    workdir: str, mount: dict[str, str], allowed: bool
) -> None:
    """Nothing below a volume is entered or bound before it is certain that it stays."""
    container = {"volumeMounts": [{"name": "v", "mountPath": "/workspace", **mount}]}
    mounts = (Mount(Path("/v"), "/workspace"),)
    spec = ContainerSpec("u", "main", 0, HostRoot(), ("x",), workdir=workdir, mounts=mounts)
    assert may_stand_by(spec, container) == allowed


def test_an_image_is_not_made_ready_ahead() -> None:
    """Its writable layer is still the one of the life before."""
    root = ImageRoot((Path("/l"),), Path("/u"), Path("/w"))
    assert not may_stand_by(ContainerSpec("u", "main", 0, root, ("x",)), {})
