"""etcd, kube-apiserver and kube-controller-manager: their certificates, flags and readiness.

Shared by the API-only world (free ports on loopback) and the node (fixed ports in a namespace).
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.pki import ADMIN, Cert, server
from cluster.places import ClusterError, Places

SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"


@dataclass(frozen=True)
class ControlPlane:
    """Addresses and files of one control plane."""

    places: Places
    directory: Path
    bind: str
    advertise: str  # Endpoints refuse loopback addresses
    api_port: int
    etcd_port: int
    peer_port: int
    controllers_port: int
    durable: bool = True

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    def certs(self) -> tuple[Cert, ...]:
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        addresses = ("127.0.0.1", FIRST_SERVICE, self.advertise)
        hosts = (*(f"DNS:{name}" for name in names), *(f"IP:{ip}" for ip in addresses))
        return (
            ADMIN,
            server("kube-apiserver", *hosts),
            Cert("apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet-client"),
            Cert("front-proxy", "/CN=front-proxy-client", ca="front-proxy-ca"),
        )

    def etcd(self) -> list[str]:
        client = f"http://127.0.0.1:{self.etcd_port}"
        peer = f"http://127.0.0.1:{self.peer_port}"
        return [
            self.places.binary("etcd"),
            f"--data-dir={self.directory / 'data' / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            f"--quota-backend-bytes={2 << 30}",
            "--log-level=warn",
            *([] if self.durable else ["--unsafe-no-fsync"]),
        ]

    def apiserver(self, *extra: str) -> list[str]:
        pki = self.pki
        return [
            self.places.binary("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--bind-address={self.bind}",
            f"--secure-port={self.api_port}",
            f"--advertise-address={self.advertise}",
            f"--tls-cert-file={pki}/kube-apiserver.crt",
            f"--tls-private-key-file={pki}/kube-apiserver.key",
            f"--client-ca-file={pki}/ca.crt",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--service-cluster-ip-range={SERVICES}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki}/sa.pub",
            f"--service-account-signing-key-file={pki}/sa.key",
            f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
            f"--kubelet-client-key={pki}/apiserver-kubelet.key",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki}/front-proxy.crt",
            f"--proxy-client-key-file={pki}/front-proxy.key",
            "--profiling=false",
            "--v=1",
            *extra,
        ]

    def controllers(self, *extra: str) -> list[str]:
        pki = self.pki
        config = self.directory / "etc" / "admin.conf"
        return [
            self.places.binary("kube-controller-manager"),
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.controllers_port}",
            "--leader-elect=false",
            # Halves the start; the one client it then has needs the rights of them all: admin.
            "--use-service-account-credentials=false",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            f"--service-account-private-key-file={pki}/sa.key",
            f"--root-ca-file={pki}/ca.crt",
            f"--cluster-signing-cert-file={pki}/ca.crt",
            f"--cluster-signing-key-file={pki}/ca.key",
            f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
            f"--client-ca-file={pki}/ca.crt",
            "--profiling=false",
            "--v=1",
            *extra,
        ]


def get(url: str, pki: Path, path: str) -> tuple[int, bytes]:
    """GET as admin; 0 when nobody answers."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    host = url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=2, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def until(what: str, ready: Callable[[], bool], alive: Callable[[], None], seconds: float) -> None:
    """Poll until ready; `alive` raises when a process that must be there has died."""
    end = time.monotonic() + seconds
    while not ready():
        alive()
        if time.monotonic() > end:
            raise ClusterError(f"{what} took longer than {seconds:.0f} s")
        time.sleep(0.05)


def compact(etcd_port: int) -> None:
    """Forget all but the newest revision, as a cluster does every five minutes."""

    def call(path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{etcd_port}/v3/kv/{path}", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            decoded: dict[str, Any] = json.load(answer)
            return decoded

    revision = call("range", {"key": "Lw==", "limit": 1})["header"]["revision"]
    call("compaction", {"revision": revision, "physical": True})
