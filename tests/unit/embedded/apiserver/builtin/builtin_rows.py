"""Objects with a status, with the row a real kube-apiserver 1.34 made of them.

`builtin_rows.json` has the recorded cells under the row's name, without the age.
"""

# ruff: noqa: E501 - a table reads best with one case to a line

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.embedded.apiserver.builtin.builtin_cases import (
    Object,
    box,
    budget,
    claim,
    lease,
    new,
    pod,
    policy,
    service,
    slice_,
    stateful,
)

ROWS_FILE = Path(__file__).with_name("builtin_rows.json")
CELLS: dict[str, dict[str, Any]] = json.loads(ROWS_FILE.read_text())

START = "2026-01-01T00:00:00Z"


class Row(NamedTuple):
    name: str
    body: Object
    status: Object | None = None


def container(name: str = "c", ready: bool = False, restarts: int = 0, **state: Any) -> Object:
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "image": "",
        "imageID": "",
    }


def running(name: str = "c", ready: bool = True, **rest: Any) -> Object:
    return container(name, ready, **rest, running={"startedAt": START})


def ended(name: str = "c", **terminated: Any) -> Object:
    return container(name, terminated={"exitCode": 0, **terminated})


def waiting(name: str = "c", reason: str = "") -> Object:
    return container(name, waiting={"reason": reason} if reason else {})


def status(*containers: Object, phase: str = "Running", **rest: Any) -> Object:
    return {"phase": phase, "containerStatuses": list(containers), **rest}


def condition(name: str, value: str = "True", **rest: Any) -> Object:
    return {"type": name, "status": value, **rest}


def initializing(*containers: Object, **rest: Any) -> Object:
    return status(
        waiting(reason="PodInitializing"),
        phase="Pending",
        initContainerStatuses=list(containers),
        **rest,
    )


TWO = pod(box("a"), box("b"))
INIT = pod(initContainers=[box("i"), box("j")])
SIDECAR = pod(initContainers=[box("s", restartPolicy="Always"), box("i")])

ROWS = [
    Row("pod: new", pod()),
    Row("pod: running", pod(), status(running(), podIP="10.1.1.1", podIPs=[{"ip": "10.1.1.1"}], nominatedNodeName="n")),
    Row("pod: not ready", pod(), status(running(ready=False))),
    Row("pod: restarted", pod(), status(running(restarts=3))),
    Row("pod: crash loop", pod(), status(waiting(reason="CrashLoopBackOff"))),
    Row("pod: creating", pod(), status(waiting(reason="ContainerCreating"), phase="Pending")),
    Row("pod: waiting without reason", pod(), status(waiting(), phase="Pending")),
    Row("pod: completed", pod(), status(ended(reason="Completed"), phase="Succeeded")),
    Row("pod: error", pod(), status(ended(reason="Error", exitCode=1), phase="Failed")),
    Row("pod: exit code", pod(), status(ended(exitCode=3), phase="Failed")),
    Row("pod: signal", pod(), status(ended(exitCode=137, signal=9), phase="Failed")),
    Row("pod: evicted", pod(), status(phase="Failed", reason="Evicted")),
    Row("pod: one of two", TWO, status(running("a"), waiting("b", "ImagePullBackOff"))),
    Row("pod: one of two done", TWO, status(running("a"), ended("b", reason="Completed"))),
    Row("pod: one of two done, ready", TWO, status(running("a"), ended("b", reason="Completed"), conditions=[condition("Ready")])),
    Row("pod: first reason wins", TWO, status(waiting("a", "ErrImagePull"), ended("b", reason="Error", exitCode=1))),
    Row("pod: init waits", INIT, initializing(waiting("i", "PodInitializing"), waiting("j", "PodInitializing"))),
    Row("pod: init runs", INIT, initializing(running("i", ready=False), waiting("j", "PodInitializing"))),
    Row("pod: second init", INIT, initializing(ended("i", reason="Completed"), running("j", ready=False))),
    Row("pod: init failed", INIT, initializing(ended("i", exitCode=2), waiting("j"))),
    Row("pod: init error", INIT, initializing(ended("i", exitCode=2, reason="Error"), waiting("j"))),
    Row("pod: init signal", INIT, initializing(ended("i", exitCode=2, signal=15), waiting("j"))),
    Row("pod: init crash loop", INIT, initializing(waiting("i", "CrashLoopBackOff"), waiting("j"))),
    Row("pod: init restarts", INIT, initializing(running("i", ready=False, restarts=2))),
    Row("pod: init done", INIT, status(running(), initContainerStatuses=[ended("i"), ended("j")])),
    Row("pod: initialized", INIT, status(running(), initContainerStatuses=[running("i")], conditions=[condition("Initialized")])),
    Row("pod: sidecar starts", SIDECAR, initializing({**running("s", ready=False), "started": False}, waiting("i"))),
    Row("pod: sidecar started", SIDECAR, initializing({**running("s"), "started": True}, running("i", ready=False))),
    Row("pod: sidecar and container", SIDECAR, status(running(), initContainerStatuses=[{**running("s", restarts=4), "started": True}, ended("i")])),
    Row("pod: gated", pod(), status(phase="Pending", conditions=[condition("PodScheduled", "False", reason="SchedulingGated")])),
    Row("service: plain", service(selector={"b": "c", "a": "b"}, ports=[{"port": 80, "name": "a"}, {"port": 53, "protocol": "UDP", "name": "b"}])),
    Row("service: headless", service(clusterIP="None", ports=[])),
    Row("configmap", new("ConfigMap", data={"a": "1"}, binaryData={"b": ""})),
    Row("secret", new("Secret", data={"a": ""}, type="example.com/x")),
    Row("claim: pending", claim()),
    Row("claim: bound", claim(volumeName="v"), {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]}),
    Row("claim: without class", claim(storageClassName=None)),
    Row("account", new("ServiceAccount", secrets=[{"name": "s"}])),
    Row("node: new", new("Node")),
    Row("node: ready", new("Node", {"unschedulable": True}, metadata={"name": "x", "labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "", "kubernetes.io/role": "c"}}, status={"conditions": [condition("Ready")], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1", "osImage": "os", "kernelVersion": "k", "containerRuntimeVersion": "c", "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"}})),
    Row("node: not ready", new("Node", status={"conditions": [condition("Ready", "False")]})),
    Row("node: unknown", new("Node", status={"conditions": [condition("Ready", "Unknown")]})),
    Row("quota", new("ResourceQuota", {"hard": {"pods": "3"}}), {"hard": {"pods": "3", "limits.cpu": "2", "cpu": "1"}, "used": {"pods": "1", "limits.cpu": "500m"}}),
    Row("statefulset", stateful({"containers": [box("a"), box("b", "y")]}, replicas=3), {"replicas": 2, "readyReplicas": 1}),
    Row("lease", lease(holderIdentity="me")),
    Row("lease: free", lease()),
    Row("slice: full", slice_(endpoints=[{"addresses": ["10.1.1.1"]}, {"addresses": ["10.1.1.2"]}, {"addresses": ["10.1.1.3"]}, {"addresses": ["10.1.1.4"]}, {"addresses": ["10.1.1.5"]}], ports=[{"port": 80, "name": "a"}, {"name": "b"}])),
    Row("slice: empty", slice_(endpoints=[])),
    Row("policy: all", policy(podSelector={})),
    Row("policy: some", policy(podSelector={"matchLabels": {"b": "c", "a": "b"}, "matchExpressions": [{"key": "d", "operator": "In", "values": ["y", "x"]}, {"key": "e", "operator": "DoesNotExist"}, {"key": "f", "operator": "Exists"}]})),
    Row("budget: least", budget(minAvailable=1), {"disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3}),
    Row("budget: share", budget(maxUnavailable="50%")),
    Row("budget: nothing", budget()),
    Row("event", new("Event", involvedObject={"kind": "Pod", "name": "p", "namespace": "default", "fieldPath": "spec.x"}, reason="R", message=" said \n", type="Normal", source={"component": "c", "host": "h"}, count=3)),
    Row("event: reported", new("Event", involvedObject={"kind": "BoilerhouseClaim", "namespace": "default"}, reason="R", message="m", type="Warning", reportingComponent="example.com/c", reportingInstance="i", eventTime="2026-01-01T00:00:00.000000Z", action="A")),
]  # fmt: skip
