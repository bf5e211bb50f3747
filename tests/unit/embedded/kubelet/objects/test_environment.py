"""Variables of a container and $(NAME) in its words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.kubelet.objects.environment import PodView, environment, expand
from boilerhouse.embedded.kubelet.objects.references import Missing, References
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.kinds import ObjectMeta
from boilerhouse.platform.kube.resources import CONFIG_MAPS, SECRETS
from tests.embedded_fixture import EmbeddedWorld

POD = PodView(
    ObjectMeta("web", "default", uid="u", labels={"app.kubernetes.io/name": "x"}),
    {"nodeName": "n", "containers": [{"name": "main", "resources": {"limits": {"cpu": "1500m"}}}]},
    "127.16.0.1",
    "127.0.0.1",
    {"cpu": parse("4"), "memory": parse("1Gi")},
)


@pytest.fixture
async def references(tmp_path: Path) -> AsyncIterator[References]:
    world = EmbeddedWorld(tmp_path)
    await world.open()
    client = Client(world.transport(), "default")
    await client.create(
        CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"A": "a", "9": "not a name"}}
    )
    await client.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"one": "1"}})
    yield References(client, "default")
    await world.close()


async def made(references: References, **container: Any) -> dict[str, str]:
    return await environment({"name": "main", **container}, POD, references, {"PATH": "/bin"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $( A)", "$A $( A)"),
        ("$(A", "$(A"),
        ("100$", "100$"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    """Known names are replaced, unknown ones stay, two dollars are one."""
    assert expand(text, {"A": "1", "B": "2"}) == expected


async def test_variables_in_order_over_the_images(references: References) -> None:
    """What envFrom brings, then env; a variable sees those before it; odd keys are left out."""
    found = await made(
        references,
        envFrom=[{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}, "prefix": "P_"}],
        env=[{"name": "X", "value": "$(P_one)$(Y)"}, {"name": "Y", "value": "y"}],
    )
    assert found == {"PATH": "/bin", "A": "a", "P_one": "1", "X": "1$(Y)", "Y": "y"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "web"),
        ("metadata.labels['app.kubernetes.io/name']", "x"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "n"),
        ("status.podIP", "127.16.0.1"),
    ],
)
async def test_fields_of_the_pod(references: References, path: str, expected: str) -> None:
    """fieldRef brings what the Pod knows of itself."""
    env = [{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    assert (await made(references, env=env))["V"] == expected


async def test_resources_of_the_container(references: References) -> None:
    """Limits in the divisor asked for, rounded up; without a limit the machine's."""
    env = [
        {
            "name": "CPU",
            "valueFrom": {"resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
        },
        {
            "name": "MEM",
            "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
        },
    ]
    found = await made(references, env=env)
    assert (found["CPU"], found["MEM"]) == ("2", "1024")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"secretKeyRef": {"name": "none", "key": "k"}}, 'secret "none" not found'),
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "couldn't find key k in Secret default/s"),
        ({"configMapKeyRef": {"name": "none", "key": "k"}}, 'configmap "none" not found'),
        ({"fieldRef": {"fieldPath": "spec.other"}}, "spec.other"),
    ],
)
async def test_what_is_missing_is_named(
    references: References, source: dict[str, Any], words: str
) -> None:
    """In the words of a real kubelet; optional ones are left out instead."""
    with pytest.raises(Missing, match=words):
        await made(references, env=[{"name": "V", "valueFrom": source}])
    for kind in source:
        if kind != "fieldRef":
            optional = {kind: {**source[kind], "optional": True}}
            assert "V" not in await made(references, env=[{"name": "V", "valueFrom": optional}])
