"""Decoding a list of Pods: our Structs beside the official client's models, on the same bytes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
from kubernetes.client import ApiClient

from bench.figures import Figure
from boilerhouse.platform.kube.kinds import Page, Pod

PODS = 1_000


def pod(number: int) -> dict[str, Any]:
    """A Pod as a kubelet leaves it, about 3 KB."""
    container = {
        "name": "main",
        "image": "registry.example/agent:1.2.3",
        "command": ["/bin/agent", "--listen", ":8080"],
        "env": [{"name": f"NAME_{n}", "value": f"value-{n}"} for n in range(8)],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "overlay-0", "mountPath": "/workspace"}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 5},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    state = {"running": {"startedAt": "2026-01-01T00:00:02Z"}}
    return {
        "metadata": {
            "name": f"inst-{number}",
            "namespace": "boilerhouse",
            "uid": f"00000000-0000-4000-8000-{number:012}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {f"boilerhouse.dev/label-{n}": f"value-{n}" for n in range(5)},
            "annotations": {"boilerhouse.dev/note": "x" * 200},
        },
        "spec": {
            "containers": [container],
            "restartPolicy": "Always",
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 120,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "volumes": [{"name": "overlay-0", "emptyDir": {}}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:03Z"}
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/agent:1.2.3",
                    "imageID": "sha256:0",
                    "containerID": "containerd://0",
                    "state": state,
                }
            ],
        },
    }


def best(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def figures() -> list[Figure]:
    listing = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    body = json.dumps({**listing, "items": [pod(n) for n in range(PODS)]}).encode()
    decoder = msgspec.json.Decoder(Page[Pod])
    text = body.decode()
    official = ApiClient()
    ours = best(lambda: decoder.decode(body), 15)
    theirs = best(lambda: official.deserialize(text, "V1PodList", "application/json"), 3)
    ratio = theirs / ours
    what = f"decode {PODS:,} Pods ({len(body) >> 20} MiB)"
    return [
        Figure(f"{what}, our Structs", f"{ours * 1e3:.1f} ms", raw=(ours,)),
        Figure(f"{what}, the official client", f"{theirs * 1e3:.1f} ms", raw=(theirs,)),
        Figure("ratio of the two", f"{ratio:.0f} ×", "≥ 20 ×", ratio >= 20, (ratio,)),
    ]
