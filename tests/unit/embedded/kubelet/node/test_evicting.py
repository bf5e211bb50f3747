"""When a Pod uses more disk than it may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.kubelet.node.evicting import limited, too_much
from boilerhouse.embedded.kubelet.objects.containerspec import accompanied

MEBI = 1024 * 1024


def spec(size: str = "", storage: str = "", medium: str = "") -> dict[str, Any]:
    source = {"sizeLimit": size} if size else {}
    limits = {"ephemeral-storage": storage} if storage else {}
    return {
        "volumes": [{"name": "v", "emptyDir": {**source, "medium": medium}}],
        "containers": [{"resources": {"limits": limits}}, {"resources": {"limits": limits}}],
    }


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A Pod that wrote 2 MiB into its volume and 1 MiB of logs; 3 MiB in memory."""
    for name, size in (("pod/volumes/v/a", 2), ("pod/logs/b", 1), ("memory/v/c", 3)):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * size * MEBI)
    (tmp_path / "pod/volumes/v/loop").symlink_to("/")
    return tmp_path


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (spec(), None),
        (spec(size="3Mi"), None),
        (spec(size="1Mi"), 'EmptyDir volume "v" exceeds the limit "1Mi"'),
        (spec(size="2500Ki", medium="Memory"), '"v"'),
        (spec(storage="2Mi"), None),  # of each of two containers
        (spec(storage="1Mi"), "ephemeral local storage usage exceeds"),
    ],
)
def test_limits(used: Path, given: dict[str, Any], words: str | None) -> None:
    """Each volume by its own limit, everything on disk by the sum of the containers'."""
    found = too_much(given, used / "pod", used / "memory")
    assert (found is None) == (words is None)
    if words is not None:
        assert words in (found or "")


def test_a_container_without_a_limit_frees_the_pod() -> None:
    """Only a Pod in which something is limited is looked at."""
    given = spec(storage="1Mi")
    assert limited(given)
    given["containers"].append({})
    assert not limited(given)
    assert limited(spec(size="1Mi"))


@pytest.mark.parametrize(
    ("sidecar", "told"),
    [
        ({"image": "ours", "restartPolicy": "Always"}, True),
        ({"image": "ours"}, False),  # an init container that has ended watches nothing
        ({"image": "theirs", "restartPolicy": "Always"}, False),
    ],
)
def test_a_pod_with_our_sidecar_is_an_instance(sidecar: dict[str, Any], told: bool) -> None:
    """By what runs in it, not by a label that anybody can write."""
    given = {"initContainers": [{"image": "other"}, sidecar], "containers": [{"image": "ours"}]}
    assert accompanied(given, lambda one: one["image"] == "ours") == told
