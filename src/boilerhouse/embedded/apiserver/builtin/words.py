"""What `kubectl explain` says of the fields people meet most. Our own words, one line each.

The facts in trees.json come without prose; a field that is not described here shows its type only.
"""

from __future__ import annotations

from typing import Final

_CORE = "io.k8s.api.core.v1."

# Definition -> what it is ("" key), and what its fields are for.
WORDS: Final[dict[str, dict[str, str]]] = {
    _CORE + "Pod": {
        "": "One or more containers that live and die together on a node.",
        "spec": "What is to run. Fixed once created, but for images and tolerations.",
        "status": "How it is doing, as the kubelet sees it.",
    },
    _CORE + "PodSpec": {
        "": "What a Pod runs, and how.",
        "containers": "The containers of the Pod; at least one.",
        "initContainers": "Started one after the other before the containers; those with "
        "restartPolicy Always keep running beside them.",
        "volumes": "Directories and files that containers of the Pod can mount.",
        "restartPolicy": "Whether containers that end are started again: Always, OnFailure, Never.",
        "terminationGracePeriodSeconds": "How long containers have to stop by themselves.",
        "nodeName": "The node the Pod runs on; set by binding.",
        "serviceAccountName": "The account the Pod acts for; it must exist.",
        "securityContext": "Users, groups and filters that hold for all containers.",
        "shareProcessNamespace": "Whether the containers see each other's processes.",
        "hostname": "The name the Pod gives itself.",
        "tolerations": "Troubles of a node that the Pod endures, and for how long.",
        "imagePullSecrets": "Secrets with the passwords of image registries.",
    },
    _CORE + "PodStatus": {
        "": "What was last observed of a Pod.",
        "phase": "Pending, Running, Succeeded, Failed or Unknown.",
        "conditions": "What holds of the Pod now: PodScheduled, Initialized, ContainersReady, "
        "Ready.",
        "containerStatuses": "What was last observed of each container.",
        "podIP": "The Pod's address.",
        "qosClass": "Guaranteed, Burstable or BestEffort, by requests and limits.",
        "startTime": "When the kubelet took the Pod over.",
    },
    _CORE + "Container": {
        "": "One image, run with arguments, environment, mounts and limits.",
        "name": "Unique within the Pod; a DNS label.",
        "image": "What to run.",
        "command": "Replaces the entry point of the image.",
        "args": "Arguments of the entry point.",
        "env": "Environment variables, in order; a later one may use an earlier one.",
        "envFrom": "Every key of a ConfigMap or Secret as an environment variable.",
        "ports": "Ports the container listens on.",
        "resources": "What the container is promised, and what it may not exceed.",
        "volumeMounts": "Which volumes appear where.",
        "livenessProbe": "Restarts the container when it fails.",
        "readinessProbe": "Decides whether the container is ready.",
        "startupProbe": "Holds back the other probes until it has succeeded.",
        "securityContext": "Users, capabilities and filters of this container.",
        "workingDir": "Where the entry point starts.",
        "imagePullPolicy": "Always, IfNotPresent or Never.",
    },
    _CORE + "Volume": {
        "": "Something that containers of a Pod can mount.",
        "name": "Unique within the Pod; a DNS label.",
        "emptyDir": "An empty directory that lives as long as the Pod.",
        "configMap": "The keys of a ConfigMap as files.",
        "secret": "The keys of a Secret as files.",
        "persistentVolumeClaim": "The volume bound to a claim.",
    },
    _CORE + "ResourceRequirements": {
        "": "Amounts of CPU, memory and disk.",
        "requests": "What is reserved.",
        "limits": "What may not be exceeded.",
    },
    _CORE + "Service": {
        "": "A stable name and address for a set of Pods.",
        "spec": "Which Pods, and under which address and ports.",
    },
    _CORE + "ServiceSpec": {
        "": "Which Pods a Service stands for, and how they are reached.",
        "selector": "Labels of the Pods it stands for.",
        "ports": "The ports it offers.",
        "clusterIP": "Its address; None for a headless Service. Chosen when left out.",
    },
    _CORE + "ConfigMap": {
        "": "Named texts that are no secret.",
        "data": "Texts by key.",
        "binaryData": "Bytes by key, in base64.",
        "immutable": "Once true, the content never changes again.",
    },
    _CORE + "Secret": {
        "": "Named bytes that are not for everybody.",
        "data": "Bytes by key, in base64.",
        "stringData": "Texts to be put into data; only ever written, never read.",
        "type": "Which keys are expected; Opaque for none in particular.",
        "immutable": "Once true, the content never changes again.",
    },
    _CORE + "PersistentVolumeClaim": {
        "": "A request for storage that outlives Pods.",
        "spec": "How much, shared how.",
        "status": "Which volume was bound, and its size.",
    },
    _CORE + "Namespace": {"": "A room of its own for names, quotas and policies."},
    _CORE + "Node": {"": "A machine that runs Pods."},
    _CORE + "Event": {
        "": "Something worth knowing that happened to an object.",
        "involvedObject": "What it happened to.",
        "reason": "What happened, in one word.",
        "message": "What happened, for people.",
        "type": "Normal or Warning.",
        "count": "How often it happened.",
    },
    _CORE + "ResourceQuota": {
        "": "How much a namespace may use in all.",
        "spec": "The limits, by resource.",
        "status": "What is used now.",
    },
    _CORE + "LimitRange": {"": "How much a single object of a namespace may and does use."},
    _CORE + "ServiceAccount": {"": "Whom a Pod acts for."},
    "io.k8s.api.apps.v1.StatefulSet": {
        "": "Numbered Pods, each with a name and storage that stay its own.",
        "spec": "The template of the Pods and how many there are.",
        "status": "How many there are, and of which revision.",
    },
    "io.k8s.api.coordination.v1.Lease": {
        "": "Who holds something now, and until when.",
    },
    "io.k8s.api.discovery.v1.EndpointSlice": {
        "": "Addresses and ports that a Service leads to.",
    },
    "io.k8s.api.networking.v1.NetworkPolicy": {
        "": "Which connections to and from some Pods are allowed.",
    },
    "io.k8s.api.policy.v1.PodDisruptionBudget": {
        "": "How many Pods of a set may be taken away at once.",
    },
}
