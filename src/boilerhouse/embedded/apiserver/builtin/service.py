"""Services: defaults, cluster IPs, rules."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Container
from itertools import chain
from typing import Any

from boilerhouse.embedded.apiserver.builtin.rules import dns_label, named_port, port_number
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.platform.kube.status import Cause, duplicate, invalid_value, required

RANGE = ipaddress.IPv4Network("10.96.0.0/16")
# The first addresses are for those who ask for one by number, as on a real server.
_RESERVED = 256
_CARRIED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def default(body: Body) -> None:
    spec = body["spec"]
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port["targetPort"]:
            port["targetPort"] = port["port"]
    spec.setdefault("internalTrafficPolicy", "Cluster")
    address = spec.get("clusterIP")
    if address and "clusterIPs" not in spec:
        spec["clusterIPs"] = [address]
    elif not address and spec.get("clusterIPs"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    # Headless and without selector, so whatever its endpoints are: it may be of either family.
    either = spec.get("clusterIP") == "None" and not spec.get("selector")
    spec.setdefault("ipFamilyPolicy", "RequireDualStack" if either else "SingleStack")
    spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if either else ["IPv4"])


def allocate(body: Body, taken: Container[str]) -> None:
    """Give a Service an address that is not taken, unless it has one or wants none.

    The same name tends to get the same address again. Raises LookupError when the range is full.
    """
    spec = body["spec"]
    if spec.get("clusterIP"):
        return
    metadata = body["metadata"]
    name = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    first, size = int(RANGE.network_address), RANGE.num_addresses - 1
    start = zlib.crc32(name.encode()) % (size - _RESERVED) + _RESERVED
    for offset in chain(range(start, size), range(_RESERVED, start), range(1, _RESERVED)):
        address = str(ipaddress.IPv4Address(first + offset))
        if address not in taken:
            spec["clusterIP"] = address
            spec["clusterIPs"] = [address]
            return
    raise LookupError(f"every address of {RANGE} is taken")


def carried(body: Body, old: Body) -> None:
    """Keep the addresses when a client leaves them out."""
    spec, before = body.get("spec"), old.get("spec", {})
    if spec is not before and isinstance(spec, dict):
        for name in _CARRIED:
            if not spec.get(name) and name in before:
                spec[name] = before[name]


def validate(body: Body, old: Body | None) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports", [])
    if not ports and not headless:
        causes.append(required("spec.ports"))
    causes += _port_causes(ports)
    addresses = spec.get("clusterIPs", [])
    if spec.get("clusterIP", "") != (addresses[0] if addresses else ""):
        causes.append(
            invalid_value("spec.clusterIPs", addresses, "first value must match `clusterIP`")
        )
    if not headless:
        causes += _address_causes(addresses)
    if old is not None:
        causes += _change_causes(spec, old["spec"])
    return causes


def _port_causes(ports: list[Body]) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            causes.append(required(f"{field}.name"))
        elif name:
            causes += dns_label(f"{field}.name", name)
            if name in names:
                causes.append(duplicate(f"{field}.name", name))
            names.add(name)
        causes += port_number(f"{field}.port", port["port"])
        target = port["targetPort"]
        if isinstance(target, str):
            causes += named_port(f"{field}.targetPort", target)
        else:
            causes += port_number(f"{field}.targetPort", target)
        key = (port["port"], port["protocol"])
        if key in seen:
            causes.append(duplicate(field, {"protocol": key[1], "port": key[0]}))
        seen.add(key)
    return causes


def _address_causes(addresses: list[str]) -> list[Cause]:
    causes: list[Cause] = []
    for index, text in enumerate(addresses):
        field = f"spec.clusterIPs[{index}]"
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            causes.append(invalid_value(field, text, "must be a valid IP address"))
            continue
        if address not in RANGE:
            why = f"failed to allocate IP {text}: the provided IP ({text}) is not in {RANGE}"
            causes.append(invalid_value("spec.clusterIPs", addresses, why))
    return causes


def _change_causes(spec: Body, before: Body) -> list[Cause]:
    then, now = before.get("clusterIPs", []), spec.get("clusterIPs", [])
    if then and then[0] != (now[0] if now else ""):
        return [invalid_value("spec.clusterIPs[0]", now, "may not change once set")]
    return []
