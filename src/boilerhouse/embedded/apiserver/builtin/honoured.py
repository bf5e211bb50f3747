"""What Kubernetes knows and this world does not do: refused, field by field, and said so.

A field that is accepted and ignored is a lie to whoever set it. Each entry names a definition, a
field and the reason; the schema answers 422 "not supported here" with the field's path. A value
that asks for nothing (false, empty) passes. `ONLY` narrows a field to the values that are done.

This table is the only place: what the kubelet or a controller learns to do is taken out here.
"""

from __future__ import annotations

from typing import Final

_CORE = "io.k8s.api.core.v1."
_HOST = "instances never share the machine's namespaces"
_SCHEDULING = "there is one node, and no scheduler that would look at this"
_VOLUME = "volumes are emptyDir, configMap, secret and persistentVolumeClaim"
_WINDOWS = "instances run on Linux"
_BALANCER = "there is no load balancer"
_KUBELET = "the kubelet does not do this yet"

REFUSED: Final[dict[str, dict[str, str]]] = {
    _CORE + "PodSpec": {
        "hostNetwork": _HOST,
        "hostPID": _HOST,
        "hostIPC": _HOST,
        "hostUsers": _HOST,
        "ephemeralContainers": _KUBELET,
        "activeDeadlineSeconds": _KUBELET,
        "affinity": _SCHEDULING,
        "nodeSelector": _SCHEDULING,
        "topologySpreadConstraints": _SCHEDULING,
        "schedulingGates": _SCHEDULING,
        "priorityClassName": "there are no priority classes",
        "overhead": "there are no runtime classes",
        "runtimeClassName": "there are no runtime classes",
        "resourceClaims": "there are no devices to claim",
        "resources": "resources are set per container",
        "readinessGates": _KUBELET,
        "automountServiceAccountToken": "instances get no service account token",
        "dnsConfig": _KUBELET,
        "hostAliases": _KUBELET,
        "setHostnameAsFQDN": _KUBELET,
        "hostnameOverride": _KUBELET,
        "os": "the operating system is Linux, without saying so",
    },
    _CORE + "PodSecurityContext": {
        # fsGroup is fine: every volume belongs to the one user and group of its Pod.
        "supplementalGroups": "a container has one group",
        "supplementalGroupsPolicy": "a container has one group",
        "sysctls": _KUBELET,
        "seLinuxOptions": _KUBELET,
        "seLinuxChangePolicy": _KUBELET,
        "appArmorProfile": _KUBELET,
        "windowsOptions": _WINDOWS,
    },
    _CORE + "SecurityContext": {
        "privileged": "instances are never privileged",
        "allowPrivilegeEscalation": "instances never gain privileges",
        "procMount": _KUBELET,
        "seLinuxOptions": _KUBELET,
        "appArmorProfile": _KUBELET,
        "windowsOptions": _WINDOWS,
    },
    _CORE + "Container": {
        "lifecycle": _KUBELET,
        "resizePolicy": "a running container keeps its resources",
        "restartPolicyRules": _KUBELET,
        "volumeDevices": "there are no block devices",
    },
    _CORE + "ContainerPort": {"hostPort": _HOST, "hostIP": _HOST},
    _CORE + "ResourceRequirements": {"claims": "there are no devices to claim"},
    _CORE + "HTTPGetAction": {"host": "probes ask the Pod itself"},
    _CORE + "TCPSocketAction": {"host": "probes ask the Pod itself"},
    _CORE + "Probe": {"grpc": _KUBELET, "terminationGracePeriodSeconds": _KUBELET},
    _CORE + "EnvVarSource": {"fileKeyRef": _KUBELET},
    _CORE + "VolumeMount": {"subPathExpr": _KUBELET, "recursiveReadOnly": _KUBELET},
    _CORE + "Volume": dict.fromkeys(
        (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi",
            "downwardAPI", "ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk",
            "gitRepo", "glusterfs", "hostPath", "image", "iscsi", "nfs", "photonPersistentDisk",
            "portworxVolume", "projected", "quobyte", "rbd", "scaleIO", "storageos",
            "vsphereVolume",
        ),
        _VOLUME,
    ),
    _CORE + "PersistentVolumeClaimSpec": {
        "dataSource": "claims start empty",
        "dataSourceRef": "claims start empty",
        "volumeAttributesClassName": "volumes have no attributes",
    },
    _CORE + "ServiceSpec": {
        "externalIPs": _BALANCER,
        "externalName": "there is no cluster DNS",
        "externalTrafficPolicy": _BALANCER,
        "healthCheckNodePort": _BALANCER,
        "loadBalancerClass": _BALANCER,
        "loadBalancerIP": _BALANCER,
        "loadBalancerSourceRanges": _BALANCER,
        "sessionAffinityConfig": "connections are not sticky",
        "trafficDistribution": "there is one node",
    },
    _CORE + "ServicePort": {"nodePort": _BALANCER},
}  # fmt: skip

ONLY: Final[dict[str, dict[str, list[str]]]] = {
    _CORE + "PodSpec": {
        "dnsPolicy": ["ClusterFirst", "Default"],
        "preemptionPolicy": ["PreemptLowerPriority"],
        "schedulerName": ["default-scheduler"],
    },
    _CORE + "SeccompProfile": {"type": ["RuntimeDefault"]},
    _CORE + "VolumeMount": {"mountPropagation": ["None"]},
    _CORE + "PersistentVolumeClaimSpec": {"volumeMode": ["Filesystem"]},
    _CORE + "ServiceSpec": {
        "type": ["ClusterIP"],
        "sessionAffinity": ["None"],
    },
}
