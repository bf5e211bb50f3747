"""The helper's objects as plain dicts: its token, its volume, its Pod.

decide ─► helper_secret, volume_claim, helper_pod ─► apply
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from boilerhouse.core.names import HELPER_PORT, TEMPLATE
from boilerhouse.node.helper import layout

Body = dict[str, Any]

_USER = 65532  # nobody's number on any distribution; the volume is given to it by kubelet


@dataclass(frozen=True, slots=True)
class HelperSettings:
    """What an installation decides about its helper. No storage class: the cluster's default."""

    image: str = "boilerhouse"
    storage: str = "10Gi"
    storage_class: str | None = None


def helper_secret(token: str) -> Body:
    """Build the Secret that the helper's token is in."""
    return {
        "metadata": {"name": layout.SECRET, "labels": {layout.COMPONENT: layout.HELPER}},
        "type": "Opaque",
        "immutable": True,
        "stringData": {"token": token},
    }


def volume_claim(settings: HelperSettings) -> Body:
    """Build the claim on the volume that snapshots are kept on."""
    spec: Body = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": settings.storage}},
    }
    if settings.storage_class is not None:
        spec["storageClassName"] = settings.storage_class
    return {
        "metadata": {"name": layout.VOLUME_CLAIM, "labels": {layout.COMPONENT: layout.HELPER}},
        "spec": spec,
    }


def helper_pod(settings: HelperSettings, secret_uid: str) -> Body:
    """Build the helper's Pod, marked with what it was built from and whose token it holds."""
    return {
        "metadata": {
            "name": layout.POD,
            "labels": {
                layout.COMPONENT: layout.HELPER,
                TEMPLATE: template_hash(settings, secret_uid),
            },
        },
        "spec": _spec(settings),
    }


def template_hash(settings: HelperSettings, secret_uid: str) -> str:
    """Return what changes when a running helper is no longer the one that would be built."""
    text = json.dumps([_spec(settings), secret_uid], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _spec(settings: HelperSettings) -> Body:
    return {
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": layout.HELPER,
                "image": settings.image,
                "imagePullPolicy": "IfNotPresent",
                "args": [layout.HELPER],
                "ports": [{"name": "helper", "containerPort": HELPER_PORT}],
                "readinessProbe": {
                    "httpGet": {"path": layout.HEALTHZ, "port": HELPER_PORT},
                    "periodSeconds": 2,
                },
                "resources": {
                    "requests": {"cpu": "10m", "memory": "32Mi"},
                    "limits": {"cpu": "2", "memory": "128Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "token", "mountPath": layout.TOKEN_DIR, "readOnly": True},
                    {"name": "snapshots", "mountPath": layout.SNAPSHOTS_DIR},
                ],
            }
        ],
        "volumes": [
            {"name": "token", "secret": {"secretName": layout.SECRET, "defaultMode": 0o440}},
            {
                "name": "snapshots",
                "persistentVolumeClaim": {"claimName": layout.VOLUME_CLAIM},
            },
        ],
    }
