"""Objects of built-in kinds, with what a real kube-apiserver 1.34 made of them.

Each case is an object to create and, for some, a merge patch to change it by afterwards.
`builtin_outcomes.json` has the recorded answer to the last request under the case's name: `stored`
(the object without what differs from run to run) or `code` and `causes` (pairs of reason and
field). The table is data so that it can run against either world.
"""

# ruff: noqa: E501 - a table reads best with one case to a line

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

OUTCOMES_FILE = Path(__file__).with_name("builtin_outcomes.json")
OUTCOMES: dict[str, dict[str, Any]] = json.loads(OUTCOMES_FILE.read_text())

Object = dict[str, Any]


class Case(NamedTuple):
    name: str
    body: Object
    change: Object | None = None
    part: str = ""


def new(kind: str, spec: Any = None, api: str = "v1", **rest: Any) -> Object:
    body: Object = {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, **rest}
    if spec is not None:
        body["spec"] = spec
    return body


def pod(*containers: Object, **spec: Any) -> Object:
    listed = list(containers) or [box()]
    return new("Pod", {"containers": listed, "automountServiceAccountToken": False, **spec})


def box(name: str = "c", image: Any = "busybox:1", **rest: Any) -> Object:
    return {"name": name, "image": image, **rest}


def service(**spec: Any) -> Object:
    return new("Service", {"clusterIP": "10.96.7.7", "ports": [{"port": 80}], **spec})


def stateful(template: Object | None = None, **spec: Any) -> Object:
    inner = {"containers": [box()]} if template is None else template
    return new(
        "StatefulSet",
        {
            "selector": {"matchLabels": {"a": "b"}},
            "serviceName": "s",
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": inner},
            **spec,
        },
        api="apps/v1",
    )


def claim(**spec: Any) -> Object:
    sized = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return new("PersistentVolumeClaim", {"storageClassName": "none", **sized, **spec})


def budget(**spec: Any) -> Object:
    return new("PodDisruptionBudget", spec, api="policy/v1")


def policy(**spec: Any) -> Object:
    return new("NetworkPolicy", spec, api="networking.k8s.io/v1")


def slice_(**rest: Any) -> Object:
    return new("EndpointSlice", api="discovery.k8s.io/v1", addressType="IPv4", **rest)


def lease(**spec: Any) -> Object:
    return new("Lease", spec, api="coordination.k8s.io/v1")


def secret(**rest: Any) -> Object:
    return new("Secret", **rest)


def probe(**rest: Any) -> Object:
    return pod(box(readinessProbe=rest))


def volumes(*listed: Object, **container: Any) -> Object:
    return pod(box(**container), volumes=list(listed))


def limits(*items: Object) -> Object:
    return new("LimitRange", {"limits": list(items)})


def env(*listed: Object) -> Object:
    return pod(box(env=list(listed)))


TCP = {"tcpSocket": {"port": 80}}
FULL = {"cpu": "1", "memory": "1Gi"}
EVENT: Object = new(
    "Event",
    involvedObject={"kind": "Pod", "name": "p", "namespace": "default"},
    reason="Made",
    message="It was made.",
    type="Normal",
)

PODS = [
    Case("pod: least", pod()),
    Case("pod: no containers", new("Pod", {"containers": []})),
    Case("pod: no spec", new("Pod")),
    Case("pod: empty values vanish", pod(box(args=[], command=[], env=[], ports=[], tty=False, workingDir=""), hostNetwork=False, hostPID=False, nodeName="", tolerations=[], volumes=[], imagePullSecrets=[], nodeSelector={})),
    Case("pod: zero values that stay", pod(box(securityContext={"runAsUser": 0, "runAsNonRoot": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": False}), terminationGracePeriodSeconds=0, enableServiceLinks=False, shareProcessNamespace=False)),
    Case("pod: nulls", pod(box(args=None, resources=None, securityContext=None), volumes=None, securityContext=None)),
    Case("pod: images", pod(box("a", "nginx"), box("b", "nginx:latest"), box("c", "r.example:5000/x/nginx"), box("d", "r.example:5000/x/nginx:1"), box("e", "nginx@sha256:" + "a" * 64), box("f", "nginx:1", imagePullPolicy="Never"), box("g", "NGINX"), box("h", "Host.example/a/b"))),
    Case("pod: requests follow limits", pod(box(resources={"limits": {"cpu": 2, "memory": "1.5Gi"}, "requests": {"cpu": "0.1"}}))),
    Case("pod: guaranteed", pod(box(resources={"limits": FULL}))),
    Case("pod: guaranteed in spite of an init container without resources", pod(box(resources={"limits": FULL}), initContainers=[box("i")])),
    Case("pod: burstable", pod(box("a", resources={"limits": FULL}), box("b"))),
    Case("pod: best effort but storage", pod(box(resources={"requests": {"ephemeral-storage": "1Gi"}}))),
    Case("pod: quantities", pod(box(resources={"requests": {"cpu": 0.5, "memory": "1000000k", "ephemeral-storage": "1e9"}}))),
    Case("pod: bad quantity", pod(box(resources={"requests": {"cpu": "1x"}}))),
    Case("pod: negative quantity", pod(box(resources={"requests": {"cpu": "-1"}}))),
    Case("pod: unknown resource", pod(box(resources={"limits": {"gpu": "1"}}))),
    Case("pod: request above limit", pod(box(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}))),
    Case("pod: probes", pod(box(readinessProbe={"httpGet": {"port": 80}}, livenessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1}, startupProbe={**TCP, "failureThreshold": 3600, "periodSeconds": 1}))),
    Case("pod: probe without handler", probe(periodSeconds=1)),
    Case("pod: probe with two handlers", probe(httpGet={"port": 80}, **TCP)),
    Case("pod: probe with a bad port", probe(tcpSocket={"port": 70000})),
    Case("pod: probe with a named port", probe(tcpSocket={"port": "http"})),
    Case("pod: probe with a bad port name", probe(tcpSocket={"port": "HTTP_"})),
    Case("pod: probe without command", probe(exec={"command": []})),
    Case("pod: negative period", probe(**TCP, periodSeconds=-1)),
    Case("pod: liveness success threshold", pod(box(livenessProbe={**TCP, "successThreshold": 2}))),
    Case("pod: ports", pod(box(ports=[{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}]))),
    Case("pod: bad ports", pod(box(ports=[{"containerPort": 0}, {"containerPort": 70000}, {"containerPort": 1, "name": "Bad_"}]))),
    Case("pod: port name twice", pod(box(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]))),
    Case("pod: bad protocol", pod(box(ports=[{"containerPort": 1, "protocol": "tcp"}]))),
    Case("pod: env", env({"name": "A", "value": "1"}, {"name": "A", "value": ""}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}}, {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}})),
    Case("pod: env without name", env({"value": "1"})),
    Case("pod: env with a strange name", env({"name": "a b.c-1", "value": "1"})),
    Case("pod: env with a bad name", env({"name": "a=b"})),
    Case("pod: env value and source", env({"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})),
    Case("pod: env two sources", env({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}})),
    Case("pod: env empty source", env({"name": "A", "valueFrom": {}})),
    Case("pod: env bad field", env({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.generation"}}})),
    Case("pod: env label", env({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}})),
    Case("pod: env reference without key", env({"name": "A", "valueFrom": {"configMapKeyRef": {"name": "", "key": ""}}})),
    Case("pod: env from", pod(box(envFrom=[{"prefix": "X_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "c", "optional": True}}]))),
    Case("pod: env from nothing", pod(box(envFrom=[{"prefix": "X_"}]))),
    Case("pod: volumes", volumes({"name": "e", "emptyDir": {"sizeLimit": "1.5Gi"}}, {"name": "d"}, {"name": "s", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p", "mode": 256}]}}, {"name": "c", "configMap": {"name": "c", "defaultMode": 292}}, {"name": "p", "persistentVolumeClaim": {"claimName": "x", "readOnly": False}}, volumeMounts=[{"name": "e", "mountPath": "/e", "readOnly": False}, {"name": "s", "mountPath": "/s", "readOnly": True, "subPath": "k"}])),
    Case("pod: volume twice", volumes({"name": "a"}, {"name": "a"})),
    Case("pod: volume with two sources", volumes({"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}})),
    Case("pod: bad volume name", volumes({"name": "A"}, {"emptyDir": {}})),
    Case("pod: secret volume without name", volumes({"name": "a", "secret": {}}, {"name": "b", "configMap": {}}, {"name": "c", "persistentVolumeClaim": {}})),
    Case("pod: bad item", volumes({"name": "a", "secret": {"secretName": "s", "items": [{"key": "", "path": "/x"}, {"key": "k", "path": "../x"}, {"key": "k", "path": "x", "mode": 4096}]}})),
    Case("pod: mount of nothing", pod(box(volumeMounts=[{"name": "v", "mountPath": "/v"}]))),
    Case("pod: mounts in one place", volumes({"name": "a"}, volumeMounts=[{"name": "a", "mountPath": "/v"}, {"name": "a", "mountPath": "/v"}, {"name": "a", "mountPath": "", "subPath": "../x"}])),
    Case("pod: sidecar", pod(initContainers=[box("s", restartPolicy="Always", startupProbe=TCP), box("i", command=["true"])])),
    Case("pod: probe on an init container", pod(initContainers=[box("i", readinessProbe=TCP)])),
    Case("pod: restart policy of a container", pod(box(restartPolicy="Sometimes"))),
    Case("pod: same name twice", pod(box("a"), box("a"), initContainers=[box("a")])),
    Case("pod: bad container names", pod(box("A_"), box(""), box("x" * 64))),
    Case("pod: no image", pod({"name": "c"}, box("d", " x"))),
    Case("pod: bad enums", pod(box(imagePullPolicy="Often", terminationMessagePolicy="Log"), restartPolicy="Sometimes")),
    Case("pod: bad hostname", pod(hostname="A", subdomain="b.c")),
    Case("pod: bad grace", pod(terminationGracePeriodSeconds=-1)),
    Case("pod: bad ids", pod(box(securityContext={"runAsUser": -1}), securityContext={"fsGroup": -1, "runAsGroup": 2**32})),
    Case("pod: security", pod(box(securityContext={"capabilities": {"drop": ["ALL"], "add": ["KILL"]}, "readOnlyRootFilesystem": True, "seccompProfile": {"type": "RuntimeDefault"}}), securityContext={"runAsNonRoot": True, "fsGroup": 1000, "supplementalGroups": []})),
    Case("pod: own tolerations", pod(tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}])),
    Case("pod: tolerates everything", pod(tolerations=[{"operator": "Exists"}])),
    Case("pod: bad tolerations", pod(tolerations=[{"operator": "Equal"}, {"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}, {"key": "a", "operator": "Exists", "value": "x"}, {"key": "a b"}])),
    Case("pod: wrong type of spec", new("Pod", [])),
    Case("pod: wrong type of a list", new("Pod", {"containers": {}})),
    Case("pod: wrong type of a text", pod(box(image=5))),
    Case("pod: wrong type of a number", pod(terminationGracePeriodSeconds="5")),
    Case("pod: priority", pod(priority=0)),
    Case("pod: other priority", pod(priority=5)),
    Case("pod: status at birth", {**pod(), "status": {"phase": "Running", "podIP": "1.2.3.4"}}),
    Case("pod: change of image", pod(), {"spec": {"containers": [box(image="busybox:2", imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")]}}),
    Case("pod: change of args", pod(), {"spec": {"containers": [box(args=["x"], terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")]}}),
    Case("pod: another container", pod(), {"spec": {"containers": [box(), box("d")]}}),
    Case("pod: change of restart policy", pod(), {"spec": {"restartPolicy": "Never"}}),
    Case("pod: change of node", pod(), {"spec": {"nodeName": "n"}}),
    Case("pod: change of labels", pod(), {"metadata": {"labels": {"a": "b"}}}),
    Case("pod: tolerations gone", pod(), {"spec": {"tolerations": None}}),
    Case("pod: status by the main door", pod(), {"status": {"phase": "Running"}}),
    Case("pod: status", pod(), {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}], "startTime": "2026-01-01T01:00:00.5+01:00", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]}, "spec": {"restartPolicy": "Never"}}, "status"),
]  # fmt: skip

SERVICES = [
    Case("service: least", service()),
    Case("service: headless", service(clusterIP="None", selector={"a": "b"})),
    Case("service: headless without ports", service(clusterIP="None", ports=[])),
    Case("service: ports", service(ports=[{"port": 80, "name": "http", "targetPort": "web"}, {"port": 53, "name": "dns", "protocol": "UDP"}])),
    Case("service: no ports", service(ports=[])),
    Case("service: ports without names", service(ports=[{"port": 80}, {"port": 81}])),
    Case("service: bad ports", service(ports=[{"port": 0, "name": "a"}, {"port": 80, "name": "A", "targetPort": 70000}, {"port": 81, "name": "b", "targetPort": "Bad_"}])),
    Case("service: same port twice", service(ports=[{"port": 80, "name": "a"}, {"port": 80, "name": "a"}])),
    Case("service: address out of range", service(clusterIP="10.1.1.1")),
    Case("service: no address", service(clusterIP="x")),
    Case("service: bad name", {**service(), "metadata": {"name": "1x"}}),
    Case("service: empty selector", service(selector={})),
    Case("service: change of address", service(), {"spec": {"clusterIP": "10.96.7.8", "clusterIPs": ["10.96.7.8"]}}),
    Case("service: address left out", service(), {"spec": {"clusterIP": None, "clusterIPs": None, "selector": {"x": "y"}}}),
    Case("service: to headless", service(), {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
    Case("service: publish", service(publishNotReadyAddresses=True)),
]  # fmt: skip

DATA = [
    Case("configmap: data", new("ConfigMap", data={"a": "1", "b.txt": ""}, binaryData={"c": "AAEC"})),
    Case("configmap: null value", new("ConfigMap", data={"a": None})),
    Case("configmap: empty", new("ConfigMap", data={})),
    Case("configmap: bad keys", new("ConfigMap", data={"a b": "", "..": "", "": ""})),
    Case("configmap: key in both", new("ConfigMap", data={"a": ""}, binaryData={"a": ""})),
    Case("configmap: number", new("ConfigMap", data={"a": 1})),
    Case("configmap: bad base64", new("ConfigMap", binaryData={"a": "?"})),
    Case("configmap: immutable", new("ConfigMap", data={"a": "1"}, immutable=True), {"data": {"a": "2"}}),
    Case("configmap: not mutable again", new("ConfigMap", data={"a": "1"}, immutable=True), {"immutable": False}),
    Case("configmap: immutable with labels", new("ConfigMap", data={"a": "1"}, immutable=True), {"metadata": {"labels": {"a": "b"}}}),
    Case("configmap: made immutable", new("ConfigMap", data={"a": "1"}), {"immutable": True}),
    Case("secret: text", secret(data={"a": "MQ=="}, stringData={"a": "2", "b": "ü"})),
    Case("secret: wrapped base64", secret(data={"a": "AAAA\nAAAA"})),
    Case("secret: bad base64", secret(data={"a": "MQ"})),
    Case("secret: bad key", secret(data={"a/b": "MQ=="})),
    Case("secret: tls", secret(type="kubernetes.io/tls", data={"tls.crt": "MQ=="})),
    Case("secret: basic auth", secret(type="kubernetes.io/basic-auth")),
    Case("secret: own type", secret(type="example.com/x")),
    Case("secret: change of type", secret(), {"type": "example.com/y"}),
    Case("secret: immutable", secret(data={"a": "MQ=="}, immutable=True), {"stringData": {"b": "1"}}),
]  # fmt: skip

STATEFUL = [
    Case("statefulset: least", stateful()),
    Case("statefulset: full", stateful(replicas=0, updateStrategy={"type": "OnDelete"}, podManagementPolicy="Parallel", minReadySeconds=3, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}, ordinals={"start": 2}, volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])),
    Case("statefulset: mounts its claims", stateful({"containers": [box(volumeMounts=[{"name": "d", "mountPath": "/d"}])]}, volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])),
    Case("statefulset: selector does not match", stateful(selector={"matchLabels": {"a": "c"}})),
    Case("statefulset: no selector", stateful(selector=None)),
    Case("statefulset: empty selector", stateful(selector={})),
    Case("statefulset: negative", stateful(replicas=-1, minReadySeconds=-1, revisionHistoryLimit=-1)),
    Case("statefulset: restart policy", stateful({"containers": [box()], "restartPolicy": "Never"})),
    Case("statefulset: no containers", stateful({"containers": []})),
    Case("statefulset: limits do not make requests", stateful({"containers": [box(resources={"limits": FULL})]})),
    Case("statefulset: bad names and claims", stateful(serviceName="A", volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": {"accessModes": ["Odd"]}}])),
    Case("statefulset: partition", stateful(updateStrategy={"rollingUpdate": {"partition": 2}})),
    Case("statefulset: rolling on delete", stateful(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}})),
    Case("statefulset: scale", stateful(), {"spec": {"replicas": 3}}),
    Case("statefulset: template", stateful(), {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}),
    Case("statefulset: change of service", stateful(), {"spec": {"serviceName": "t"}}),
    Case("statefulset: change of selector", stateful(), {"spec": {"selector": {"matchLabels": {"a": "c"}}, "template": {"metadata": {"labels": {"a": "c"}}}}}),
    Case("statefulset: labels only", stateful(), {"metadata": {"labels": {"x": "y"}}}),
    Case("statefulset: status", stateful(), {"status": {"replicas": 2, "readyReplicas": 1}}, "status"),
]  # fmt: skip

STORAGE = [
    Case("claim: least", claim()),
    Case("claim: without class", claim(storageClassName=None)),
    Case("claim: no modes", claim(accessModes=[])),
    Case("claim: bad mode", claim(accessModes=["Sometimes"])),
    Case("claim: no size", claim(resources={})),
    Case("claim: zero size", claim(resources={"requests": {"storage": "0"}})),
    Case("claim: bad class", claim(storageClassName="A B")),
    Case("claim: change of class", claim(), {"spec": {"storageClassName": "other"}}),
    Case("claim: change of size while pending", claim(), {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}),
    Case("claim: bound", claim(), {"spec": {"volumeName": "v"}}),
    Case("claim: status", claim(), {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}}, "status"),
]  # fmt: skip

POLICIES = [
    Case("budget: number", budget(minAvailable=1, selector={"matchLabels": {"a": "b"}})),
    Case("budget: share", budget(maxUnavailable="50%", selector={})),
    Case("budget: zero", budget(maxUnavailable=0)),
    Case("budget: both", budget(maxUnavailable=0, minAvailable=1)),
    Case("budget: negative", budget(minAvailable=-1)),
    Case("budget: too large a number", budget(minAvailable=2**40)),
    Case("budget: bad share", budget(minAvailable="x")),
    Case("budget: too large a share", budget(minAvailable="101%")),
    Case("budget: bad selector", budget(selector={"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "b", "operator": "Exists", "values": ["x"]}, {"key": "c", "operator": "Near"}, {"key": "d e", "operator": "Exists"}]})),
    Case("budget: bad labels", budget(selector={"matchLabels": {"a b": "c d"}})),
    Case("budget: status", budget(minAvailable=1), {"status": {"currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1, "disruptionsAllowed": 0, "observedGeneration": 1}}, "status"),
    Case("policy: deny all", policy(podSelector={})),
    Case("policy: nothing said", policy()),
    Case("policy: egress", policy(podSelector={"matchLabels": {"a": "b"}}, egress=[{"ports": [{"port": 80}, {"port": "dns", "protocol": "UDP"}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"podSelector": {}}]}])),
    Case("policy: types", policy(podSelector={}, policyTypes=["Egress"])),
    Case("policy: bad type", policy(podSelector={}, policyTypes=["Sideways"])),
    Case("policy: bad block", policy(podSelector={}, ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/99"}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}, {"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}, {}]}])),
    Case("policy: bad ports", policy(podSelector={}, ingress=[{"ports": [{"port": 0}, {"port": 90, "endPort": 80}, {"port": "A_"}, {"endPort": 80}]}])),
    Case("quota: hard", new("ResourceQuota", {"hard": {"pods": "10", "requests.cpu": "1500m", "limits.memory": "1024Mi", "count/widgets.example.com": "3"}})),
    Case("quota: null value", new("ResourceQuota", {"hard": {"pods": None}})),
    Case("quota: empty", new("ResourceQuota", {})),
    Case("quota: bad", new("ResourceQuota", {"hard": {"pods": "1.5", "things": "1", "cpu": "-1"}})),
    Case("quota: status at birth", new("ResourceQuota", {"hard": {"pods": "1"}}, status={"used": {"pods": "7"}})),
    Case("limits: container", limits({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}})),
    Case("limits: default", limits({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "0.5"}})),
    Case("limits: minimum only", limits({"type": "Container", "min": {"memory": "1Mi"}})),
    Case("limits: pod", limits({"type": "Pod", "max": {"cpu": "2"}})),
    Case("limits: pod default", limits({"type": "Pod", "default": {"cpu": "2"}})),
    Case("limits: claim", limits({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})),
    Case("limits: claim without storage", limits({"type": "PersistentVolumeClaim"})),
    Case("limits: crossed", limits({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}})),
    Case("limits: type twice", limits({"type": "Pod", "max": {"cpu": "2"}}, {"type": "Pod"})),
    Case("limits: bad type", limits({"type": "Thing"})),
    Case("limits: unknown resource", limits({"type": "Container", "max": {"things": "1"}})),
    Case("limits: ratio", limits({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}})),
]  # fmt: skip

OTHERS = [
    Case("lease: full", lease(holderIdentity="me", leaseDurationSeconds=15, leaseTransitions=0, acquireTime="2026-01-01T00:00:00.123456Z", renewTime="2026-01-01T01:00:00.000000+01:00")),
    Case("lease: time without decimals", lease(renewTime="2026-01-01T00:00:00Z")),
    Case("lease: empty", lease()),
    Case("lease: holder empty", lease(holderIdentity="")),
    Case("lease: bad", lease(leaseDurationSeconds=0, leaseTransitions=-1)),
    Case("lease: bad time", lease(renewTime="soon")),
    Case("event: least", EVENT),
    Case("event: full", {**EVENT, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z", "count": 2, "source": {"component": "c"}}),
    Case("event: other namespace", {**EVENT, "involvedObject": {"namespace": "other"}}),
    Case("event: new style", {**EVENT, "eventTime": "2026-01-01T00:00:00.000001Z", "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "Make"}),
    Case("event: new style, other namespace", {**EVENT, "involvedObject": {"namespace": "other"}, "eventTime": "2026-01-01T00:00:00.000001Z", "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "Make"}),
    Case("event: new style, incomplete", {**EVENT, "eventTime": "2026-01-01T00:00:00.000001Z", "type": "Odd"}),
    Case("account: least", new("ServiceAccount")),
    Case("account: secrets", new("ServiceAccount", secrets=[{"name": "s"}], imagePullSecrets=[], automountServiceAccountToken=False)),
    Case("node: least", new("Node")),
    Case("node: status", new("Node", {"taints": [{"key": "a", "effect": "NoSchedule"}]}, status={"capacity": {"cpu": 2, "memory": "1Gi"}, "conditions": [{"type": "Ready", "status": "True"}]})),
    Case("node: bad taints", new("Node", {"taints": [{"key": "a", "effect": "Never"}, {"key": "b", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]})),
    Case("slice: full", slice_(endpoints=[{"addresses": ["10.1.1.1"], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": "p"}}], ports=[{"port": 80}, {"name": "b", "port": 81, "protocol": "UDP"}])),
    Case("slice: bad", slice_(endpoints=[{"addresses": []}, {"addresses": ["x"]}, {"addresses": ["127.0.0.1"]}], ports=[{"port": 1}, {"port": 2}])),
    Case("slice: no type", new("EndpointSlice", api="discovery.k8s.io/v1", endpoints=[])),
    Case("slice: change of type", slice_(endpoints=[]), {"addressType": "FQDN"}),
    Case("namespace: bad name", {**new("Namespace"), "metadata": {"name": "a.b"}}),
]  # fmt: skip

CASES = [*PODS, *SERVICES, *DATA, *STATEFUL, *STORAGE, *POLICIES, *OTHERS]
