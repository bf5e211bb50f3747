"""NetworkPolicies and EndpointSlices: defaults and rules."""

from __future__ import annotations

import ipaddress

from boilerhouse.embedded.apiserver.builtin.rules import (
    dns_label,
    dns_subdomain,
    label_selector,
    named_port,
    port_number,
    unchanged,
)
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.platform.kube.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    too_many,
)

_MAX_ENDPOINTS, _MAX_PORTS, _MAX_ADDRESSES = 1000, 100, 100


def default_policy(body: Body) -> None:
    spec = body["spec"]
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for rule in (*spec.get("ingress", ()), *spec.get("egress", ())):
        for port in rule.get("ports", ()):
            port.setdefault("protocol", "TCP")


def validate_policy(body: Body, _old: Body | None) -> list[Cause]:
    spec = body["spec"]
    causes = label_selector("spec.podSelector", spec["podSelector"])
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction, ())):
            field = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports", ())):
                causes += _policy_port(f"{field}.ports[{number}]", port)
            for number, peer in enumerate(rule.get(peers, ())):
                causes += _peer(f"{field}.{peers}[{number}]", peer)
    types = spec["policyTypes"]
    if len(types) > 2:
        words = "may not specify more than two policyTypes"
        causes.append(invalid_value("spec.policyTypes", types, words))
    return causes


def _policy_port(field: str, port: Body) -> list[Cause]:
    number, end = port.get("port"), port.get("endPort")
    causes: list[Cause] = []
    if isinstance(number, int):
        causes += port_number(f"{field}.port", number)
        if end is not None and end < number:
            words = "must be greater than or equal to `port`"
            causes.append(invalid_value(f"{field}.endPort", end, words))
    elif isinstance(number, str):
        causes += named_port(f"{field}.port", number)
    if end is not None and not isinstance(number, int):
        words = "may not be specified when `port` is not specified or is not an integer"
        causes.append(invalid_value(f"{field}.endPort", end, words))
    return causes


def _peer(field: str, peer: Body) -> list[Cause]:
    causes = label_selector(f"{field}.podSelector", peer.get("podSelector"))
    causes += label_selector(f"{field}.namespaceSelector", peer.get("namespaceSelector"))
    if not peer:
        causes.append(required(field, "must specify a peer"))
    block = peer.get("ipBlock")
    if block is None:
        return causes
    if len(peer) > 1:
        words = "may not specify both ipBlock and another peer"
        causes.append(forbidden_field(field, words))
    where = f"{field}.ipBlock"
    try:
        network = ipaddress.ip_network(block["cidr"], strict=False)
    except ValueError:
        words = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [*causes, invalid_value(f"{where}.cidr", block["cidr"], words)]
    for index, text in enumerate(block.get("except", ())):
        causes += _exception(f"{where}.except[{index}]", text, network)
    return causes


def _exception(
    field: str, text: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network
) -> list[Cause]:
    try:
        hole = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return [invalid_value(field, text, "must be a valid CIDR value")]
    inside = hole.version == network.version and (
        int(network.network_address) <= int(hole.network_address)
        and int(hole.broadcast_address) <= int(network.broadcast_address)
    )
    if inside and hole.prefixlen > network.prefixlen:
        return []
    return [invalid_value(field, text, f"must be a strict subset of `{network}`")]


def default_slice(body: Body) -> None:
    for port in body.get("ports", ()):
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def validate_slice(body: Body, old: Body | None) -> list[Cause]:
    kind = body["addressType"]
    causes = [] if kind else [required("addressType")]
    endpoints, ports = body.get("endpoints", []), body.get("ports", [])
    if len(endpoints) > _MAX_ENDPOINTS:
        causes.append(too_many("endpoints", len(endpoints), _MAX_ENDPOINTS))
    if len(ports) > _MAX_PORTS:
        causes.append(too_many("ports", len(ports), _MAX_PORTS))
    for index, endpoint in enumerate(endpoints):
        causes += _endpoint(f"endpoints[{index}]", endpoint, kind)
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port["name"]
        if name:
            causes += dns_label(f"ports[{index}].name", name)
        if name in names:
            causes.append(duplicate(f"ports[{index}].name", name))
        names.add(name)
        if "port" in port:
            causes += port_number(f"ports[{index}].port", port["port"])
    if old is not None:
        causes += unchanged("addressType", kind, old["addressType"])
    return causes


def _endpoint(field: str, endpoint: Body, kind: str) -> list[Cause]:
    addresses = endpoint.get("addresses", [])
    if not addresses:
        return [required(f"{field}.addresses", "must contain at least 1 address")]
    if len(addresses) > _MAX_ADDRESSES:
        return [too_many(f"{field}.addresses", len(addresses), _MAX_ADDRESSES)]
    causes: list[Cause] = []
    for index, text in enumerate(addresses):
        where = f"{field}.addresses[{index}]"
        if kind == "FQDN":
            causes += dns_subdomain(where, text)
            continue
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            causes.append(invalid_value(where, text, "must be a valid IP address"))
            continue
        if kind != f"IPv{address.version}":
            causes.append(invalid_value(where, text, f"must be an {kind} address"))
        elif address.is_loopback or address.is_unspecified:
            words = "may not be unspecified or in the loopback range"
            causes.append(invalid_value(where, text, words))
    return causes
