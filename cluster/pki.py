"""Keys and certificates of a test cluster, by openssl: one CA, P-256 everywhere, under a second.

Cert list ──► <dir>/ca.crt, <dir>/<name>.crt + .key, sa.key + sa.pub ──► kubeconfig
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cluster.places import ClusterError

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650")


@dataclass(frozen=True)
class Cert:
    """A certificate to be made: a client's unless it has alternative names of a server."""

    name: str
    subject: str
    names: tuple[str, ...] = ()
    ca: str = "ca"


ADMIN = Cert("admin", "/O=system:masters/CN=admin")


def server(name: str, *hosts: str) -> Cert:
    """Return a serving certificate for hosts written as openssl wants them: DNS:… or IP:…."""
    return Cert(name, f"/CN={name}", hosts)


def make(directory: Path, certs: Sequence[Cert]) -> None:
    """Make what is missing. The directory appears whole or not at all."""
    if directory.exists():
        return
    if shutil.which("openssl") is None:
        raise ClusterError("openssl is not installed: install the package openssl")
    draft = directory.with_name(directory.name + ".new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    with ThreadPoolExecutor(4) as pool:
        authorities = {cert.ca for cert in certs}
        list(pool.map(lambda ca: _authority(draft, ca), sorted(authorities)))
        done = [pool.submit(_certificate, draft, cert) for cert in certs]
        _openssl(
            "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-out", str(draft / "sa.key"),
        )  # fmt: skip
        _openssl("pkey", "-in", str(draft / "sa.key"), "-pubout", "-out", str(draft / "sa.pub"))
        for future in done:
            future.result()
    draft.rename(directory)


def kubeconfig(path: Path, server_url: str, pki: Path, cert: str) -> None:
    """Write a kubeconfig that carries its certificates, readable by its owner only."""

    def inline(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    cluster = {"server": server_url, "certificate-authority-data": inline("ca.crt")}
    user = {
        "client-certificate-data": inline(f"{cert}.crt"),
        "client-key-data": inline(f"{cert}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": cert, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": cert}}],
        "current-context": "test",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(config, indent=1))  # JSON is YAML
    draft.rename(path)


def _authority(directory: Path, name: str) -> None:
    config = _config(directory, name, "basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign")
    _openssl(
        "req", "-x509", "-new", *_CURVE, "-config", str(config), "-subj", f"/CN=test-{name}",
        "-keyout", str(directory / f"{name}.key"), "-out", str(directory / f"{name}.crt"),
    )  # fmt: skip


def _certificate(directory: Path, cert: Cert) -> None:
    usage = "serverAuth" if cert.names else "clientAuth"
    lines = ["basicConstraints=CA:FALSE", "keyUsage=digitalSignature", f"extendedKeyUsage={usage}"]
    if cert.names:
        lines.append("subjectAltName=" + ",".join(cert.names))
    config = _config(directory, cert.name, *lines)
    base = directory / cert.name
    _openssl(
        "req", "-x509", "-new", *_CURVE, "-config", str(config), "-subj", cert.subject,
        "-CA", str(directory / f"{cert.ca}.crt"), "-CAkey", str(directory / f"{cert.ca}.key"),
        "-keyout", f"{base}.key", "-out", f"{base}.crt",
    )  # fmt: skip


def _config(directory: Path, name: str, *extensions: str) -> Path:
    path = directory / f"{name}.cnf"
    lines = ["[req]", "distinguished_name=dn", "x509_extensions=v3", "[dn]", "[v3]", *extensions]
    path.write_text("\n".join(lines) + "\n")
    return path


def _openssl(*args: str) -> None:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"openssl {args[0]} failed (3.0 or newer is needed): {done.stderr}")
