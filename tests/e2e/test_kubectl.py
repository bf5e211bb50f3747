"""An unmodified kubectl 1.34 works with what `boilerhouse up` serves, over TLS by its kubeconfig.

Every command that people use on custom resources, and the ones that exercise another way through
the server: server-side dry run, strategic merge, watches, long deletions. The same tests run
against a real API server, so that what they expect is what kubectl's users are used to.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubectl import Kubectl, binary

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
POOL = "boilerhouse.dev/v1alpha1"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Kubernetes API of `boilerhouse up`, with nobody who acts; the value is its kubeconfig."""
    binary()
    data = tmp_path_factory.mktemp("up") / "data"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.e2e.bare_api", str(data)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert any("is up" in line for line in process.stdout)
    yield data / "kubeconfig"
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    assert process.wait(20) == 0


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def world(request: pytest.FixtureRequest) -> Path:
    """The kubeconfig of an API that has our definitions and our namespace."""
    if request.param == "embedded":
        embedded: Path = request.getfixturevalue("up")
        return embedded
    real: Path = request.getfixturevalue("real_api").kubeconfig
    config = yaml.safe_load(real.read_text())
    config["contexts"][0]["context"]["namespace"] = "boilerhouse"
    path = real.with_name("kubeconfig-boilerhouse")
    path.write_text(yaml.safe_dump(config))
    kubectl = Kubectl(binary(), path, path.parent)
    if "boilerhouse" not in kubectl("get", "namespaces", "-o", "name"):
        kubectl("create", "namespace", "boilerhouse")
    if "boilerhouseclaims" not in kubectl("get", "crd", "-o", "name"):
        kubectl("apply", "-f", str(ROOT / "config" / "crd"))
    kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "config" / "crd"), "--timeout=10s"
    )
    return path


@pytest.fixture
def kubectl(world: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(binary(), world, tmp_path)


@pytest.fixture
def embedded(up: Path, tmp_path: Path) -> Kubectl:
    return Kubectl(binary(), up, tmp_path)


def pool(name: str, size: int = 1, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": POOL,
        "kind": "BoilerhousePool",
        "metadata": {"name": name, **metadata},
        "spec": {"workloadRef": "notebook", "size": size},
    }


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, image: str = "host") -> dict[str, Any]:
    container = {"name": "main", "image": image, "env": [{"name": "A", "value": "1"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [container]},
    }


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    """apply with validation on: created, configured, unchanged; a removed field is removed."""
    assert kubectl("apply", "-f-", stdin=pool("applied")).split()[-1] == "created"
    assert kubectl("apply", "-f-", stdin=pool("applied")).split()[-1] == "unchanged"
    changed = pool("applied", 3, labels={"tier": "gold"})
    changed["spec"]["maxFillConcurrency"] = 5
    assert kubectl("apply", "-f-", stdin=changed).split()[-1] == "configured"
    stored = kubectl.json("get", "bhp", "applied")
    assert stored["spec"] == {"workloadRef": "notebook", "size": 3, "maxFillConcurrency": 5}
    assert (stored["metadata"]["labels"], stored["metadata"]["generation"]) == ({"tier": "gold"}, 2)
    assert kubectl("apply", "-f-", stdin=pool("applied", 3)).split()[-1] == "configured"
    stored = kubectl.json("get", "bhp", "applied")
    assert stored["spec"]["maxFillConcurrency"] == 2
    assert "labels" not in stored["metadata"]


def test_apply_changes_built_in_kinds_by_strategic_merge(kubectl: Kubectl) -> None:
    """Lists with merge keys keep what others added; map keys come and go."""
    assert kubectl("apply", "-f-", stdin=pod("strategic")).split()[-1] == "created"
    kubectl("label", "pod", "strategic", "other=tool")
    changed = pod("strategic", "other-image")
    changed["metadata"]["labels"]["more"] = "yes"
    assert kubectl("apply", "-f-", stdin=changed).split()[-1] == "configured"
    stored = kubectl.json("get", "pod", "strategic")
    assert stored["spec"]["containers"][0]["image"] == "other-image"
    assert stored["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert stored["metadata"]["labels"] == {"app": "strategic", "other": "tool", "more": "yes"}
    kubectl("apply", "-f-", stdin=config_map("strategic", a="1", b="2"))
    kubectl("apply", "-f-", stdin=config_map("strategic", b="3"))
    assert kubectl.json("get", "cm", "strategic")["data"] == {"b": "3"}


def test_apply_refuses_unknown_fields_and_bad_values(kubectl: Kubectl) -> None:
    """Validation happens on the server, strictly, and names every field."""
    wrong = pool("wrong")
    wrong["spec"]["siez"] = 3
    told = kubectl("apply", "-f-", stdin=wrong, fails=True)
    assert 'unknown field "spec.siez"' in told
    told = kubectl("apply", "-f-", stdin=pool("wrong", -1), fails=True)
    assert "spec.size" in told
    assert "NotFound" in kubectl("get", "bhp", "wrong", fails=True)
    unchecked = kubectl("apply", "--validate=false", "-f-", stdin=wrong)
    assert unchecked.split()[-1] == "created"


def test_lists_are_applied_and_created(kubectl: Kubectl) -> None:
    """What get writes of several objects goes back in; each is still checked by the server."""
    kubectl("create", "-f-", stdin={"apiVersion": "v1", "kind": "List", "items": [
        config_map("one", a="1"), config_map("two", a="2"), pool("listed")
    ]})  # fmt: skip
    told = kubectl.run("apply", "-f-", stdin=kubectl("get", "cm", "one", "two", "-o", "yaml"))
    assert told.stdout.split("\n")[:2] == ["configmap/one configured", "configmap/two configured"]
    wrong = pool("three")
    wrong["spec"]["siez"] = 3
    several = {"apiVersion": "v1", "kind": "List", "items": [config_map("four"), wrong]}
    # Of a real server's kinds kubectl knows the fields itself, and says it in other words.
    refusal = kubectl("apply", "-f-", stdin=several, fails=True)
    assert "unknown field" in refusal and 'siez"' in refusal
    assert "NotFound" in kubectl("get", "bhp", "three", fails=True)
    bad = config_map("five") | {"dataa": {}}
    assert 'unknown field "dataa"' in kubectl("apply", "-f-", stdin=bad, fails=True)


def test_get_prints_the_columns_of_the_definition(kubectl: Kubectl) -> None:
    """get shows the printer columns, wide more, names and several kinds as asked."""
    kubectl("create", "-f-", stdin=pool("shown", 4))
    header, row = kubectl("get", "bhp", "shown").splitlines()
    assert header.split() == ["NAME", "WORKLOAD", "SIZE", "READY", "PHASE", "AGE"]
    assert row.split()[:3] == ["shown", "notebook", "4"]
    assert kubectl("get", "bhp", "shown", "-o", "name").strip() == (
        "boilerhousepool.boilerhouse.dev/shown"
    )
    assert "shown" in kubectl("get", "boilerhouse")
    assert "shown" in kubectl("get", "boilerhousepools.boilerhouse.dev", "-A", "-o", "wide")
    kubectl("create", "-f-", stdin=pod("shown"))
    wide = kubectl("get", "pods", "shown", "-o", "wide").splitlines()[0].split()
    assert wide[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert "NODE" in wide
    assert "shown" in kubectl("get", "pods", "-l", "app=shown", "--show-labels")
    assert "shown" in kubectl("get", "pods", "--field-selector", "status.phase=Pending")


def test_get_writes_yaml_that_apply_takes_back(kubectl: Kubectl) -> None:
    """-o yaml is the whole object."""
    kubectl("create", "-f-", stdin=pool("yaml", 2))
    text = kubectl("get", "bhp", "yaml", "-o", "yaml")
    stored = yaml.safe_load(text)
    assert (stored["kind"], stored["apiVersion"]) == ("BoilerhousePool", POOL)
    assert stored["spec"] == {"workloadRef": "notebook", "size": 2, "maxFillConcurrency": 2}
    assert stored["status"]["phase"] == "Degraded"
    assert kubectl("get", "bhp", "yaml", "-o", "jsonpath={.spec.size}") == "2"
    assert kubectl("replace", "-f-", stdin=text).split()[-1] == "replaced"


def test_get_watch_follows_changes(kubectl: Kubectl) -> None:
    """get -w prints a row for each change as it happens."""
    kubectl("create", "-f-", stdin=pool("watched", 1))
    watch = kubectl.start("get", "bhp", "watched", "-w", "-o", "jsonpath={.spec.size}{'\\n'}")
    table = kubectl.start("get", "bhp", "-w", "--field-selector", "metadata.name=watched")
    try:
        assert watch.stdout is not None
        assert table.stdout is not None
        assert watch.stdout.readline() == "1\n"
        assert table.stdout.readline().startswith("NAME")
        assert table.stdout.readline().split()[:3] == ["watched", "notebook", "1"]
        kubectl("patch", "bhp", "watched", "--type=merge", "-p", '{"spec":{"size":7}}')
        assert watch.stdout.readline() == "7\n"
        assert table.stdout.readline().split()[:3] == ["watched", "notebook", "7"]
    finally:
        for process in (watch, table):
            process.kill()
            process.communicate()


def test_describe_shows_the_object_and_its_events(kubectl: Kubectl) -> None:
    """describe works on custom and built-in kinds, and finds the events about them."""
    kubectl("create", "-f-", stdin=pool("described"))
    uid = kubectl.json("get", "bhp", "described")["metadata"]["uid"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "described.1", "namespace": "boilerhouse"},
        "involvedObject": {
            "apiVersion": POOL,
            "kind": "BoilerhousePool",
            "name": "described",
            "namespace": "boilerhouse",
            "uid": uid,
        },
        "reason": "Filled",
        "message": "all are warm",
        "type": "Normal",
        "count": 1,
        "source": {"component": "test"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    kubectl("create", "-f-", stdin=event)
    told = kubectl("describe", "bhp", "described")
    assert "Workload Ref:" in told
    assert "all are warm" in told
    assert "Filled" in kubectl("get", "events")
    assert "Filled" in kubectl("events", "--for", "boilerhousepool.boilerhouse.dev/described")
    kubectl("create", "-f-", stdin=pod("described"))
    assert "Image:" in kubectl("describe", "pod", "described")
    assert "described" in kubectl("describe", "cm,pods")
    assert "Status:" in kubectl("describe", "namespace", "boilerhouse")


def test_label_and_annotate(kubectl: Kubectl) -> None:
    """Both add, refuse to overwrite unasked, overwrite when asked, and remove."""
    kubectl("create", "-f-", stdin=pool("marked"))
    for verb, field in (("label", "labels"), ("annotate", "annotations")):
        kubectl(verb, "bhp", "marked", "color=red", "size=big")
        assert "overwrite" in kubectl(verb, "bhp", "marked", "color=blue", fails=True)
        kubectl(verb, "bhp", "marked", "color=blue", "--overwrite")
        kubectl(verb, "bhp", "marked", "size-")
        assert kubectl.json("get", "bhp", "marked")["metadata"][field] == {"color": "blue"}


def test_patch_in_all_three_forms(kubectl: Kubectl) -> None:
    """merge and json for every kind; strategic for built-in kinds, refused for custom ones."""
    kubectl("create", "-f-", stdin=pool("patched"))
    kubectl("patch", "bhp", "patched", "--type=merge", "-p", '{"spec":{"size":5}}')
    operations = [
        {"op": "test", "path": "/spec/size", "value": 5},
        {"op": "replace", "path": "/spec/size", "value": 6},
    ]
    kubectl("patch", "bhp", "patched", "--type=json", "-p", json.dumps(operations))
    assert kubectl.json("get", "bhp", "patched")["spec"]["size"] == 6
    told = kubectl("patch", "bhp", "patched", "--type=strategic", "-p", "{}", fails=True)
    assert "strategic" in told
    kubectl("create", "-f-", stdin=pod("patched"))
    change = {"spec": {"containers": [{"name": "main", "image": "newer"}]}}
    kubectl("patch", "pod", "patched", "-p", json.dumps(change))
    (container,) = kubectl.json("get", "pod", "patched")["spec"]["containers"]
    assert (container["image"], container["env"]) == ("newer", [{"name": "A", "value": "1"}])
    kubectl(
        *("patch", "bhp", "patched", "--subresource=status", "--type=merge"),
        *("-p", '{"status":{"phase":"Healthy"}}'),
    )
    told = kubectl(
        *("patch", "bhp", "patched", "--subresource=status", "--type=merge"),
        *("-p", '{"status":{"phase":"Nonsense"}}'),
        fails=True,
    )
    assert "status.phase" in told


def test_edit_sends_what_the_editor_left(kubectl: Kubectl) -> None:
    """edit changes custom and built-in kinds, and reports an edit that the server refuses."""
    kubectl("create", "-f-", stdin=pool("edited"))
    kubectl("create", "-f-", stdin=config_map("edited", key="old"))
    told = kubectl("edit", "bhp", "edited", KUBE_EDITOR="sed -i s/size:.*/size:\\ 9/")
    assert told.split()[-1] == "edited"
    assert kubectl.json("get", "bhp", "edited")["spec"]["size"] == 9
    kubectl("edit", "cm", "edited", KUBE_EDITOR="sed -i s/old/new/")
    assert kubectl.json("get", "cm", "edited")["data"] == {"key": "new"}
    same = kubectl.run("edit", "bhp", "edited", KUBE_EDITOR="true")
    assert "no changes" in same.stderr + same.stdout


def test_create_and_replace(kubectl: Kubectl) -> None:
    """create refuses a second time, replace changes the whole object, --force makes it anew."""
    kubectl("create", "-f-", stdin=config_map("made", a="1"))
    assert "AlreadyExists" in kubectl("create", "-f-", stdin=config_map("made"), fails=True)
    before = kubectl.json("get", "cm", "made")["metadata"]["uid"]
    kubectl("replace", "-f-", stdin=config_map("made", b="2"))
    assert kubectl.json("get", "cm", "made")["data"] == {"b": "2"}
    kubectl("replace", "--force", "-f-", stdin=config_map("made", c="3"))
    after = kubectl.json("get", "cm", "made")
    assert after["data"] == {"c": "3"}
    assert after["metadata"]["uid"] != before
    kubectl("create", "secret", "generic", "made", "--from-literal=key=value")
    kubectl("create", "namespace", "made")
    assert kubectl("get", "ns", "made", "-o", "jsonpath={.status.phase}") == "Active"


def test_delete_waits_for_finalizers(kubectl: Kubectl) -> None:
    """delete --wait returns when the object is gone, not when that was asked for."""
    kubectl("create", "-f-", stdin=pool("deleted", finalizers=["test.dev/hold"]))
    told = kubectl("delete", "bhp", "deleted", "--wait", "--timeout=1s", fails=True)
    assert "timed out" in told
    waiting = kubectl.start("delete", "bhp", "deleted", "--wait", "--timeout=30s")
    kubectl("patch", "bhp", "deleted", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    waiting.communicate(timeout=30)
    assert "NotFound" in kubectl("get", "bhp", "deleted", fails=True)
    for name in ("deleted-1", "deleted-2"):
        kubectl("create", "-f-", stdin=pool(name, labels={"batch": "yes"}))
    kubectl("delete", "bhp", "-l", "batch=yes")
    assert kubectl("get", "bhp", "-l", "batch=yes", "-o", "name") == ""
    kubectl("create", "-f-", stdin=pod("deleted"))
    kubectl("delete", "pod", "deleted", "--now")
    kubectl("create", "namespace", "deleted")
    kubectl("-n", "deleted", "create", "-f-", stdin=pool("inside"))
    kubectl("delete", "namespace", "deleted", "--timeout=30s")
    assert "NotFound" in kubectl("get", "namespace", "deleted", fails=True)


def test_wait_for_jsonpath_condition_and_deletion(kubectl: Kubectl) -> None:
    """wait returns when a field, a condition or an absence has come, and times out if not."""
    kubectl("create", "-f-", stdin=pool("awaited"))
    told = kubectl(
        *("wait", "bhp/awaited", "--for=jsonpath={.status.phase}=Healthy", "--timeout=1s"),
        fails=True,
    )
    assert "timed out" in told
    waiting = [
        kubectl.start("wait", "bhp/awaited", f"--for={what}", "--timeout=30s")
        for what in ("jsonpath={.status.phase}=Healthy", "condition=Filled")
    ]
    condition = {
        "type": "Filled",
        "status": "True",
        "reason": "Enough",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"phase": "Healthy", "conditions": [condition]}}
    patch = json.dumps(status)
    kubectl("patch", "bhp", "awaited", "--subresource=status", "--type=merge", "-p", patch)
    for process in waiting:
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, "condition met" in out) == (0, True)
    gone = kubectl.start("wait", "bhp/awaited", "--for=delete", "--timeout=30s")
    kubectl("delete", "bhp", "awaited")
    gone.communicate(timeout=30)
    assert gone.returncode == 0
    kubectl(
        "wait", "--for=condition=Established", "-f", str(ROOT / "config" / "crd"), "--timeout=10s"
    )


def test_explain_tells_the_fields_of_our_kinds(kubectl: Kubectl) -> None:
    """explain shows our descriptions, nested fields, types and metadata."""
    told = kubectl("explain", "boilerhouseworkload")
    assert "GROUP:      boilerhouse.dev" in told
    assert "spec\t<Object> -required-" in told
    assert "FIELD: idle <Object>" in kubectl("explain", "bhw.spec.idle")
    told = kubectl("explain", "bhp.spec.size")
    assert "FIELD: size <integer>" in told
    assert "<no description>" not in told
    assert "<empty>" not in told
    told = kubectl("explain", "bhp.status.phase")
    assert all(phase in told for phase in ("Healthy", "Degraded", "Error"))
    assert "finalizers" in kubectl("explain", "bhc.metadata")
    assert "containers" in kubectl("explain", "pod.spec")
    assert "phase\t<string>" in kubectl("explain", "bhc", "--recursive")
    assert "does not exist" in kubectl("explain", "bhp.spec.nonsense", fails=True)


def test_discovery_lists_what_is_served(kubectl: Kubectl) -> None:
    """api-resources, api-versions, version and cluster-info know us."""
    rows = kubectl("api-resources", "--no-headers").splitlines()
    by_kind = {row.split()[-1]: row.split() for row in rows}
    assert by_kind["BoilerhouseClaim"] == [
        "boilerhouseclaims",
        "bhc",
        "boilerhouse.dev/v1alpha1",
        "true",
        "BoilerhouseClaim",
    ]
    assert {"Pod", "Secret", "Lease", "Node", "StatefulSet", "EndpointSlice"} <= set(by_kind)
    ours = kubectl("api-resources", "--api-group=boilerhouse.dev", "--no-headers", "-o", "wide")
    verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert all(set(row.split()[-2].split(",")) == verbs for row in ours.splitlines())
    versions = kubectl("api-versions").split()
    assert {"v1", "apps/v1", "boilerhouse.dev/v1alpha1"} <= set(versions)
    assert "v1.34" in kubectl("version")
    assert "is running at" in kubectl("cluster-info")
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_new_kinds_are_known_at_once(kubectl: Kubectl) -> None:
    """A CRD that was just applied can be used, explained and removed with all its objects."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gizmos.demo.dev"},
        "spec": {
            "group": "demo.dev",
            "scope": "Cluster",
            "names": {"kind": "Gizmo", "plural": "gizmos", "singular": "gizmo"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "A thing.",
                            "properties": {"color": {"type": "string", "description": "Its look."}},
                        }
                    },
                }
            ],
        },
    }
    kubectl("apply", "-f-", stdin=crd)
    kubectl("wait", "--for=condition=Established", "crd/gizmos.demo.dev", "--timeout=10s")
    gizmo = {"apiVersion": "demo.dev/v1", "kind": "Gizmo", "metadata": {"name": "w"}}
    kubectl("apply", "-f-", stdin={**gizmo, "color": "red"})
    assert "Its look." in kubectl("explain", "gizmo.color")
    assert kubectl("get", "gizmos", "-o", "jsonpath={.items[*].color}") == "red"
    kubectl("delete", "crd", "gizmos.demo.dev", "--timeout=30s")
    assert "demo.dev" not in kubectl("api-versions")


def test_scale_changes_a_pool(kubectl: Kubectl) -> None:
    """The scale subresource is where kubectl scale looks for it."""
    kubectl("create", "-f-", stdin=pool("scaled", 1))
    assert kubectl("scale", "bhp/scaled", "--replicas=3").split()[-1] == "scaled"
    assert kubectl.json("get", "bhp", "scaled")["spec"]["size"] == 3
    told = kubectl("scale", "bhp/scaled", "--current-replicas=1", "--replicas=9", fails=True)
    assert "Expected replicas to be 1, was 3" in told
    scale = kubectl.json("get", "bhp", "scaled", "--subresource=scale")
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 3})


def test_diff_and_dry_run_change_nothing(kubectl: Kubectl) -> None:
    """Both run the whole way through the server except for the commit."""
    kubectl("apply", "-f-", stdin=pool("tried", 1))
    before = kubectl.json("get", "bhp", "tried")
    different = kubectl.run("diff", "-f-", stdin=pool("tried", 8))
    assert different.returncode == 1, different.stderr
    assert "+  size: 8" in different.stdout
    assert kubectl.run("diff", "-f-", stdin=pool("tried", 1)).returncode == 0
    told = kubectl("apply", "--dry-run=server", "-f-", stdin=pool("tried", 8))
    assert told.split()[-3:] == ["configured", "(server", "dry", "run)"][-3:]
    kubectl("create", "--dry-run=server", "-f-", stdin=pool("untried"))
    kubectl("delete", "--dry-run=server", "bhp", "tried")
    assert "spec.size" in kubectl(
        "apply", "--dry-run=server", "-f-", stdin=pool("tried", -1), fails=True
    )
    assert kubectl.json("get", "bhp", "tried") == before
    assert "NotFound" in kubectl("get", "bhp", "untried", fails=True)


def test_server_side_apply_is_refused_by_name(embedded: Kubectl) -> None:
    """What the embedded API does not do it says in a sentence."""
    told = embedded("apply", "--server-side", "-f-", stdin=pool("server-side"), fails=True)
    assert "apply" in told.lower()
    assert "not supported" in told


def test_debug_is_refused_in_a_sentence(embedded: Kubectl) -> None:
    """There are no ephemeral containers here, and kubectl can read the refusal."""
    embedded("create", "-f-", stdin=pod("debugged"))
    told = embedded("debug", "debugged", "--image=host", "--target=main", fails=True)
    assert "ephemeral containers are disabled for this cluster" in told


def test_the_namespace_of_boilerhouse_stays(embedded: Kubectl) -> None:
    """Without it nothing works: it is refused like those that every server has."""
    for name in ("boilerhouse", "default"):
        told = embedded("delete", "namespace", name, fails=True)
        assert "is forbidden: this namespace may not be deleted" in told
    assert "Active" in embedded("get", "namespace", "boilerhouse")


def test_a_pod_without_a_node_has_neither_shell_nor_log(kubectl: Kubectl) -> None:
    """exec and logs of a Pod that nobody runs end with an error, not with waiting."""
    kubectl("create", "-f-", stdin=pod("no-kubelet"))
    assert "no-kubelet" in kubectl("exec", "no-kubelet", "--", "true", fails=True)
    assert kubectl("logs", "no-kubelet") == ""


def test_a_wrong_token_is_refused(up: Path, tmp_path: Path) -> None:
    """The port is on loopback, but loopback is shared: without the token nothing is told."""
    config = yaml.safe_load(up.read_text())
    config["users"][0]["user"]["token"] = "guessed"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    stranger = Kubectl(binary(), tmp_path / "kubeconfig", tmp_path)
    assert "You must be logged in" in stranger("get", "secrets", fails=True)
