"""Addresses that no Pod reaches: where clouds hand out the machine's own credentials.

    a Pod's new network ─► close_metadata() ─► one `prohibit` route per prefix

A route of its own is longer than the default route that slirp4netns or pasta makes later, so it
wins; the tenant, who has no capabilities, cannot remove it. For the fork server: only the standard
library may be imported.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct

METADATA = (
    "169.254.0.0/16",  # AWS, Google, Azure, DigitalOcean, OpenStack, Hetzner, IBM, Tencent, …
    "168.63.129.16/32",  # Azure's wire server
    "100.100.100.200/32",  # Alibaba
    "192.0.0.192/32",  # Oracle
    "192.80.8.124/32",  # Equinix Metal
    "fd00:ec2::/32",  # AWS: metadata, Pod identities, names
    "fd20:ce::/32",  # Google
    "fd00:42::/32",  # Scaleway
    "fe80::a9fe:a9fe/128",  # OpenStack
)

_RTM_NEWROUTE = 24
_REQUEST_ACK_CREATE = 0x1 | 0x4 | 0x400
_TABLE_MAIN, _PROTO_STATIC, _UNIVERSE, _PROHIBIT = 254, 4, 0, 8
_RTA_DST = 1


def close_metadata() -> None:
    """Refuse these addresses in the network that this thread is in."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        for prefix in map(ipaddress.ip_network, METADATA):
            if prefix.version == 6 and not os.path.exists("/proc/net/if_inet6"):  # noqa: PTH110
                continue  # a kernel without IPv6 reaches none of them
            netlink.send(_prohibition(prefix))
            (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
            if error:
                raise OSError(-error, f"route {prefix}: {os.strerror(-error)}")


def _prohibition(prefix: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bytes:
    family = socket.AF_INET if prefix.version == 4 else socket.AF_INET6
    # struct rtmsg: family, prefix length, source length, tos, then what the names say, flags
    route = struct.pack(
        "=BBBBBBBBI",
        *(family, prefix.prefixlen, 0, 0, _TABLE_MAIN, _PROTO_STATIC, _UNIVERSE, _PROHIBIT, 0),
    )
    address = prefix.network_address.packed
    route += struct.pack("=HH", 4 + len(address), _RTA_DST) + address
    return struct.pack("=IHHII", 16 + len(route), _RTM_NEWROUTE, _REQUEST_ACK_CREATE, 1, 0) + route
