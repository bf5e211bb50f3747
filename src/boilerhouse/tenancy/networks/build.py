"""The NetworkPolicies around instances, as plain dicts. Pure.

    label boilerhouse.dev/network ─► what an instance may reach
    label boilerhouse.dev/managed ─► who may reach an instance

A cluster whose network plugin enforces policies enforces these; whether it does, nothing here can
tell. The embedded kubelet reads the label itself and gives each Pod a network of its own, so there
they are only stored. They are built whole, with every default written out: what the server hands
back can be compared as it is.
"""

from __future__ import annotations

from typing import Any

from boilerhouse.core import names
from boilerhouse.node.helper import layout
from boilerhouse.tenancy.workloads.network import Access

Body = dict[str, Any]

POLICY = "network-policy"  # value of the label `component`
INGRESS = "boilerhouse-instances-ingress"
NONE = "boilerhouse-network-none"
UNRESTRICTED = "boilerhouse-network-unrestricted"
_LAST_PORT = 65535


def policies() -> dict[str, Body]:
    """Return every policy by its name."""
    specs = {INGRESS: _ingress(), NONE: _none(), UNRESTRICTED: _unrestricted()}
    return {
        name: {
            "metadata": {"name": name, "labels": {layout.COMPONENT: POLICY}},
            "spec": spec,
        }
        for name, spec in specs.items()
    }


def _ingress() -> Body:
    """The agent's port is for the helper alone; the tenant's ports for all but other tenants."""
    helper = {"podSelector": {"matchLabels": {layout.COMPONENT: layout.HELPER}}}
    not_a_tenant = {
        "namespaceSelector": {},
        "podSelector": {"matchExpressions": [{"key": names.MANAGED, "operator": "DoesNotExist"}]},
    }
    return {
        "podSelector": {"matchLabels": {names.MANAGED: "true"}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [helper], "ports": [{"protocol": "TCP", "port": names.AGENT_PORT}]},
            {
                "from": [not_a_tenant],
                "ports": [
                    {"protocol": "TCP", "port": 1, "endPort": names.AGENT_PORT - 1},
                    {"protocol": "TCP", "port": names.AGENT_PORT + 1, "endPort": _LAST_PORT},
                    {"protocol": "UDP", "port": 1, "endPort": _LAST_PORT},
                ],
            },
        ],
    }


def _none() -> Body:
    """Nothing may be reached, names included; also by an instance that does not say."""
    others = {
        "key": names.NETWORK,
        "operator": "NotIn",
        "values": [str(Access.UNRESTRICTED)],
    }
    return {
        "podSelector": {"matchLabels": {names.MANAGED: "true"}, "matchExpressions": [others]},
        "policyTypes": ["Egress"],
    }


def _unrestricted() -> Body:
    """Everything may be reached, whatever else the namespace says by default."""
    label = {names.MANAGED: "true", names.NETWORK: str(Access.UNRESTRICTED)}
    return {
        "podSelector": {"matchLabels": label},
        "policyTypes": ["Egress"],
        "egress": [{}],
    }
