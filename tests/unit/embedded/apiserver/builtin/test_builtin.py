"""Built-in kinds as a whole: what is refused here, patches, selectors, addresses."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from boilerhouse.embedded.apiserver import builtin
from boilerhouse.embedded.apiserver.builtin import honoured, service
from boilerhouse.embedded.apiserver.builtin.shapes import referred
from boilerhouse.embedded.apiserver.builtin.words import WORDS
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.verbs import preparing
from boilerhouse.embedded.fields.patch import strategic
from boilerhouse.embedded.fields.selectors import field_selector
from boilerhouse.platform.kube.status import BadRequest, Invalid
from tests.unit.embedded.apiserver.builtin.builtin_cases import (
    Object,
    box,
    claim,
    new,
    pod,
    stateful,
)
from tests.unit.embedded.apiserver.builtin.builtin_cases import service as a_service

KINDS = {kind.resource: kind for kind in builtin.kinds()}
POD = KINDS["pods"]


def made(body: Object, kind: Kind = POD) -> Body:
    body = copy.deepcopy(body)
    kind.schema.prune(body)
    preparing.prepare_new(kind, body, "2026-01-01T00:00:00Z")
    preparing.default(kind, body)
    preparing.check_new(kind, body)
    return body


def refusal(body: Object, kind: Kind = POD) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as raised:
        made(body, kind)
    return [(cause.field, cause.message) for cause in raised.value.causes]


SPEC = {
    "hostNetwork": True,
    "hostPID": True,
    "hostIPC": True,
    "hostUsers": True,
    "affinity": {"nodeAffinity": {}},
    "nodeSelector": {"a": "b"},
    "schedulingGates": [{"name": "a"}],
    "runtimeClassName": "gvisor",
    "priorityClassName": "high",
    "automountServiceAccountToken": True,
    "activeDeadlineSeconds": 5,
    "ephemeralContainers": [box()],
}


@pytest.mark.parametrize("field", SPEC)
def test_pods_that_ask_for_what_is_not_done(field: str) -> None:
    """A known field that nobody here honours is refused with its path, not ignored."""
    body = pod()
    body["spec"][field] = SPEC[field]
    (found,) = refusal(body)
    assert found[0] == f"spec.{field}"
    assert found[1].startswith("Forbidden: not supported here: ")


CONTAINER: dict[str, Any] = {
    "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
    "livenessProbe": {"tcpSocket": {"host": "elsewhere", "port": 1}},
    "volumeDevices": [{"name": "d", "devicePath": "/d"}],
    "securityContext": {"privileged": True},
}


@pytest.mark.parametrize("field", CONTAINER)
def test_containers_that_ask_for_what_is_not_done(field: str) -> None:
    """Fields of containers are refused likewise, in Pods and in templates."""
    body = pod(box(**{field: CONTAINER[field]}))
    assert all("not supported here" in message for _, message in refusal(body))
    template = stateful(body["spec"] | {"automountServiceAccountToken": False})
    found = refusal(template, KINDS["statefulsets.apps"])
    assert [path.partition("spec.template.")[2][:18] for path, _ in found] == ["spec.containers[0]"]


@pytest.mark.parametrize("source", sorted(honoured.REFUSED["io.k8s.api.core.v1.Volume"]))
def test_volumes_of_other_kinds(source: str) -> None:
    """Any volume but the four kinds that exist here is refused by name."""
    tree = builtin.definitions()["io.k8s.api.core.v1.Volume"]["properties"][source]
    inner = builtin.definitions()[referred(tree)]["properties"]
    texts = [(k, v.get("enum", ["x"])[0]) for k, v in inner.items() if v.get("type") == "string"]
    found = refusal(pod(volumes=[{"name": "v", source: dict(texts[:1])}]))[0]
    assert found[0] == f"spec.volumes[0].{source}"
    assert "not supported here" in found[1]


@pytest.mark.parametrize(
    ("body", "field", "resource"),
    [
        (pod(schedulerName="other"), "spec.schedulerName", "pods"),
        (pod(dnsPolicy="None"), "spec.dnsPolicy", "pods"),
        (
            pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            "spec.securityContext.seccompProfile.type",
            "pods",
        ),
        (a_service(type="NodePort"), "spec.type", "services"),
        (a_service(sessionAffinity="ClientIP"), "spec.sessionAffinity", "services"),
        (claim(volumeMode="Block"), "spec.volumeMode", "persistentvolumeclaims"),
    ],
)
def test_values_that_are_not_done(body: Object, field: str, resource: str) -> None:
    """Where only some values are done, the others are refused and the good ones listed."""
    ((found, message),) = refusal(body, KINDS[resource])
    assert found == field
    assert "supported values" in message


def test_asking_for_nothing_passes() -> None:
    """Saying that one does not want an unsupported thing is fine."""
    body = pod(box(tty=False, stdin=False), hostNetwork=False, hostUsers=False, affinity=None)
    made(body)


def test_strategic_merge_of_a_pod() -> None:
    """Containers merge by name, environments by name, ports by number."""
    body = made(pod(box("a", env=[{"name": "X", "value": "1"}], args=["x"]), box("b")))
    assert POD.merge_keys is not None
    change = {
        "spec": {
            "containers": [
                {"name": "b", "image": "new"},
                {"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["y"]},
            ]
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    after = strategic(body, change, POD.merge_keys)
    images = {c["name"]: c["image"] for c in after["spec"]["containers"]}
    assert images == {"a": "busybox:1", "b": "new"}
    first = next(c for c in after["spec"]["containers"] if c["name"] == "a")
    assert {variable["name"] for variable in first["env"]} == {"X", "Y"}
    assert first["args"] == ["y"]


@pytest.mark.parametrize("kind", builtin.kinds(), ids=lambda kind: kind.plural)
def test_metadata_merges_in_every_kind(kind: Kind) -> None:
    """Finalizers are a set and owners a map, whatever the kind."""
    assert kind.merge_keys is not None
    before = {"metadata": {"finalizers": ["a/b"], "ownerReferences": [{"uid": "1", "name": "x"}]}}
    change = {"metadata": {"finalizers": ["c/d"], "ownerReferences": [{"uid": "2", "name": "y"}]}}
    after = strategic(before, change, kind.merge_keys)["metadata"]
    assert set(after["finalizers"]) == {"a/b", "c/d"}
    assert {owner["uid"] for owner in after["ownerReferences"]} == {"1", "2"}


@pytest.mark.parametrize(
    ("resource", "text", "expected"),
    [
        ("pods", "spec.nodeName=", True),
        ("pods", "status.phase=Pending,spec.restartPolicy=Always", True),
        ("pods", "spec.hostNetwork=false", True),
        ("pods", "spec.serviceAccountName!=default", False),
        ("services", "spec.clusterIP=10.96.7.7", True),
        ("secrets", "type=Opaque", True),
        ("nodes", "spec.unschedulable=false", True),
        ("events", "involvedObject.kind=Pod,source=c", True),
    ],
)
def test_selectable_fields(resource: str, text: str, expected: bool) -> None:
    """Field selectors see what a real server lets them see."""
    event = new("Event", involvedObject={"kind": "Pod"}, source={"component": "c"})
    bodies: dict[str, Object] = {
        "pods": pod(),
        "services": a_service(),
        "secrets": new("Secret"),
        "nodes": new("Node"),
        "events": {**event, "metadata": {"name": "x", "namespace": "default"}},
    }
    body = made(bodies[resource], KINDS[resource])
    assert field_selector(text, KINDS[resource].selectable).matches(body) is expected


def test_fields_that_are_not_selectable() -> None:
    """Other fields are not."""
    with pytest.raises(BadRequest, match=r"spec\.volumeName"):
        field_selector("spec.volumeName=v", KINDS["persistentvolumeclaims"].selectable)


def named(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "n"}, "spec": spec}


def test_cluster_addresses() -> None:
    """Each Service gets an address of its own; one that has or refuses one keeps that."""
    taken: set[str] = set()
    for number in range(500):
        body = named(f"s{number}")
        builtin.allocate_cluster_ip(body, taken)
        address = body["spec"]["clusterIP"]
        assert address not in taken
        assert address.startswith("10.96.")
        assert body["spec"]["clusterIPs"] == [address]
        taken.add(address)
    headless = named("h", clusterIP="None")
    builtin.allocate_cluster_ip(headless, taken)
    assert headless["spec"] == {"clusterIP": "None"}


def test_address_is_stable() -> None:
    """A Service that comes back tends to get its old address."""
    one, other = named("s"), named("s")
    builtin.allocate_cluster_ip(one, set())
    builtin.allocate_cluster_ip(other, set())
    assert one == other


def test_no_address_left() -> None:
    """A full range is an error, not an endless search."""
    everything = {str(address) for address in service.RANGE}
    with pytest.raises(LookupError, match=r"10\.96\.0\.0/16"):
        builtin.allocate_cluster_ip(named("s"), everything)


def test_names() -> None:
    """kubectl finds the kinds by the short names everybody knows."""
    short = {name: kind.plural for kind in builtin.kinds() for name in kind.short_names}
    assert short["po"] == "pods"
    assert short["sts"] == "statefulsets"
    assert short["crd"] == "customresourcedefinitions"
    everything = {kind.plural for kind in builtin.kinds() if "all" in kind.categories}
    assert everything == {"pods", "services", "statefulsets"}


def test_definitions_are_whole() -> None:
    """Every reference leads to a definition, and every sentence is one of ours."""
    found = builtin.definitions()
    ours = {text for words in WORDS.values() for text in words.values()}

    def walk(tree: Any, *, fields: bool) -> None:
        if isinstance(tree, dict):
            text = tree.get("description")
            if not fields and isinstance(text, str):
                assert text in ours or text.startswith("Not supported here: ")
            if not fields and "$ref" in tree:
                assert tree["$ref"].rpartition("/")[2] in found
            for key, value in tree.items():
                walk(value, fields=key == "properties" and not fields)
        elif isinstance(tree, list):
            for value in tree:
                walk(value, fields=False)

    for tree in found.values():
        walk(tree, fields=False)
