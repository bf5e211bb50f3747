"""What is wrong with a workload's spec."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.tenancy.workloads.checks import faults, readable, secrets
from boilerhouse.tenancy.workloads.images import TrustedImages

GOOD: dict[str, Any] = {
    "version": "1",
    "image": {"ref": "app"},
    "resources": {"vcpus": 1, "memoryMb": 64, "diskGb": 1},
}
CREDENTIAL = {
    "domain": "api.example.com",
    "headers": [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
        {"name": "B", "value": "plain"},
    ],
}


def test_a_sound_spec_has_no_faults() -> None:
    """Nothing to say."""
    assert faults(GOOD) == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"image": {"dockerfile": "a/Dockerfile"}}, "spec.image.dockerfile"),
        ({"network": {"access": "restricted"}}, "spec.network.access"),
        ({"network": {"credentials": [CREDENTIAL]}}, "spec.network.credentials"),
        ({"filesystem": {"encryptOverlays": True}}, "spec.filesystem.encryptOverlays"),
    ],
)
def test_what_is_not_built_is_refused_by_name(change: dict[str, Any], field: str) -> None:
    """Accepted by the API server, and never silently ignored."""
    (fault,) = faults(GOOD | change)
    assert fault.startswith(field)
    assert "not built yet" in fault


def test_everything_wrong_is_listed() -> None:
    """All of it at once."""
    bad = GOOD | {"resources": {"vcpus": 0, "memoryMb": 0, "diskGb": 1}}
    assert len(faults(bad)) == 2
    ruled_out = GOOD | {
        "network": {"access": "restricted"},
        "filesystem": {"overlayDirs": ["/a", "/a/b"], "encryptOverlays": True},
    }
    fields = ("spec.filesystem.overlayDirs", "spec.network.access", "spec.filesystem.encrypt")
    found = faults(ruled_out)
    assert len(found) == len(fields)
    assert all(fault.startswith(field) for fault, field in zip(found, fields, strict=True))


def test_what_cannot_be_read_has_its_problems_only() -> None:
    """Of a spec of another shape nobody knows what else it asks for."""
    bad = GOOD | {"resources": {"vcpus": "many", "memoryMb": 64, "diskGb": 1}}
    assert readable(bad) is None
    (fault,) = faults(bad)
    assert fault.startswith("spec.resources.vcpus")


@pytest.mark.parametrize("entrypoint", [None, {}, {"env": {"A": "1"}}])
def test_the_image_host_needs_a_command(entrypoint: dict[str, Any] | None) -> None:
    """It has none of its own; of another image that is not known here."""
    silent = GOOD | ({} if entrypoint is None else {"entrypoint": entrypoint})
    assert faults(silent) == []
    (fault,) = faults(silent | {"image": {"ref": "host"}})
    assert fault.startswith("spec.entrypoint: image host has no command")


@pytest.mark.parametrize("entrypoint", [{"cmd": "/bin/serve"}, {"args": ["/bin/serve", "8080"]}])
def test_the_image_host_runs_what_it_is_told(entrypoint: dict[str, Any]) -> None:
    """By either of the two words, as a container would."""
    assert faults(GOOD | {"image": {"ref": "host"}, "entrypoint": entrypoint}) == []


def test_secrets_are_found_where_they_are_referred_to() -> None:
    """Name and key of each."""
    spec = readable(GOOD | {"network": {"credentials": [CREDENTIAL]}})
    assert spec is not None
    assert secrets(spec) == [("keys", "a")]


async def test_a_cluster_trusts_references_but_not_host() -> None:
    """Only one machine has its own system as an image."""
    assert await TrustedImages().missing("example/app:1") == ""
    assert "host" in await TrustedImages().missing("host")
