"""Where the API server is and who we are to it.

KUBECONFIG | ~/.kube/config | the Pod's service account ──► Config ──► Http

The rules are kubectl's: `KUBECONFIG` may name several files, the first one to name a thing wins, a
path is relative to the file that mentions it. What we do not do is refused by a `ConfigError` that
names it, never skipped.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
import yaml

from boilerhouse.platform.kube.credentials import (
    Certificate,
    Credential,
    Credentials,
    Files,
    Plugin,
    PluginCommand,
    Static,
    bearer,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class ConfigError(Exception):
    """The configuration cannot be used; the message says which part and why."""


@dataclass(frozen=True)
class Config:
    """One API server and one identity.

    `server` is `https://…`, `http://…` or `unix:///path/to/socket`.
    """

    server: str
    namespace: str = "default"
    credentials: Credentials = field(default_factory=Static)
    ca: bytes = b""  # PEM; empty = the system's trust roots
    insecure: bool = False
    server_name: str = ""  # checked instead of the host in `server`
    proxy: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # sent with every call: impersonation

    def __post_init__(self) -> None:
        parts = urlsplit(self.server)
        if parts.scheme not in ("https", "http", "unix") or not (parts.netloc or parts.path):
            raise ConfigError(f"server {self.server!r}: want https://, http:// or unix:///path")

    @property
    def is_unix(self) -> bool:
        return self.server.startswith("unix://")


def load(context: str = "", environ: Mapping[str, str] | None = None) -> Config:
    """Find the configuration as kubectl does, and inside a Pod fall back to its service account."""
    environ = os.environ if environ is None else environ
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    paths = named or [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]
    if any(path.exists() for path in paths):
        return from_kubeconfig(*paths, context=context)
    if named:
        raise ConfigError(f"KUBECONFIG={environ['KUBECONFIG']}: no such file")
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ)
    raise ConfigError(
        f"no cluster to talk to: KUBECONFIG is not set, {paths[0]} does not exist, "
        "and this is not a Pod"
    )


def in_cluster(environ: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT) -> Config:
    """Use the service account that Kubernetes mounts into a Pod."""
    environ = os.environ if environ is None else environ
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this is not a Pod")
    if not (folder / "token").exists():
        raise ConfigError(
            f"{folder}/token does not exist: the Pod has automountServiceAccountToken: false"
        )
    namespace = folder / "namespace"
    return Config(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        credentials=Files(token=folder / "token"),
        ca=_read(folder / "ca.crt"),
    )


def from_kubeconfig(*paths: Path, context: str = "") -> Config:
    """Read one or several kubeconfig files as one. Files that do not exist are passed over."""
    merged = _merge([path for path in paths if path.exists()])
    chosen = context or merged.current
    if not chosen:
        raise ConfigError(f"no current-context in {_listed(paths)}: choose one of {merged.names}")
    if chosen not in merged.contexts:
        raise ConfigError(f"no context {chosen!r} in {_listed(paths)}: there is {merged.names}")
    link = merged.contexts[chosen]
    cluster = _named(merged.clusters, "cluster", link.values.get("cluster"), chosen)
    user = (
        _named(merged.users, "user", link.values["user"], chosen)
        if link.values.get("user")
        else _Section("", Path(), {})
    )
    server = cluster.text("server")
    if not server:
        raise ConfigError(f"cluster {cluster.name!r} has no server")
    proxy = cluster.text("proxy-url") or _environment_proxy(server)
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise ConfigError(f"cluster {cluster.name!r}: proxy-url {proxy!r} is not http or https")
    return Config(
        server=server,
        namespace=link.text("namespace") or "default",
        credentials=_credentials(user, cluster),
        ca=cluster.data("certificate-authority"),
        insecure=cluster.values.get("insecure-skip-tls-verify") is True,
        server_name=cluster.text("tls-server-name"),
        proxy=proxy,
        headers=_impersonation(user),
    )


@dataclass(frozen=True)
class _Section:
    """One named entry of a kubeconfig; paths in it are relative to `folder`."""

    name: str
    folder: Path
    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"{self.name!r}: {key} is not text")
        return value

    def path(self, key: str) -> Path | None:
        return self.folder / Path(self.text(key)).expanduser() if self.text(key) else None

    def data(self, key: str) -> bytes:
        """Return what `<key>-data` holds or the file `<key>` names; data wins, as in kubectl."""
        encoded = self.text(f"{key}-data")
        if encoded:
            try:
                return base64.b64decode(encoded, validate=True)
            except binascii.Error as error:
                raise ConfigError(f"{self.name!r}: {key}-data is not base64: {error}") from error
        path = self.path(key)
        return _read(path) if path else b""


@dataclass
class _Merged:
    current: str = ""
    contexts: dict[str, _Section] = field(default_factory=dict)
    clusters: dict[str, _Section] = field(default_factory=dict)
    users: dict[str, _Section] = field(default_factory=dict)

    @property
    def names(self) -> str:
        return ", ".join(sorted(self.contexts)) or "none"


def _merge(paths: list[Path]) -> _Merged:
    merged = _Merged()
    for path in paths:
        body = _document(path)
        merged.current = merged.current or str(body.get("current-context") or "")
        for key, inner, into in (
            ("contexts", "context", merged.contexts),
            ("clusters", "cluster", merged.clusters),
            ("users", "user", merged.users),
        ):
            for entry in body.get(key) or []:
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise ConfigError(f"{path}: an entry of {key} has no name")
                values = entry.get(inner) or {}
                if not isinstance(values, dict):
                    raise ConfigError(f"{path}: {inner} {entry['name']!r} is not a mapping")
                name = entry["name"]
                into.setdefault(name, _Section(name, path.absolute().parent, values))
    return merged


def _document(path: Path) -> dict[str, Any]:
    try:
        body = yaml.safe_load(_read(path))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise ConfigError(f"{path} is not a kubeconfig")
    return body


def _named(sections: dict[str, _Section], what: str, name: object, context: str) -> _Section:
    if not isinstance(name, str) or name not in sections:
        raise ConfigError(f"context {context!r} names {what} {name!r}, which is not there")
    return sections[name]


def _credentials(user: _Section, cluster: _Section) -> Credentials:
    if "auth-provider" in user.values:
        raise ConfigError(
            f"user {user.name!r} uses auth-provider, which Kubernetes removed in 1.26: use exec"
        )
    token, token_file = user.text("token"), user.path("tokenFile")
    headers: tuple[tuple[str, str], ...] = ()
    if token and not token_file:
        headers = (bearer(token),)
    elif user.text("username") and not token_file:
        pair = f"{user.text('username')}:{user.text('password')}"
        headers = (("authorization", "Basic " + base64.b64encode(pair.encode()).decode()),)
    paths = user.path("client-certificate"), user.path("client-key")
    inline = user.text("client-certificate-data"), user.text("client-key-data")
    has_certificate = any(paths) or any(inline)
    if user.values.get("exec") and not headers and not token_file:
        if has_certificate:
            raise ConfigError(f"user {user.name!r} has both exec and a client certificate")
        return Plugin(_plugin(user, cluster))
    if not has_certificate:
        base = Credential(headers)
        return Files(token=token_file, base=base) if token_file else Static(base)
    if not any(inline):
        if not all(paths):
            raise ConfigError(f"user {user.name!r} has half of a client certificate and key")
        return Files(token=token_file, certificate=paths[0], key=paths[1], base=Credential(headers))
    pair_data = Certificate(user.data("client-certificate"), user.data("client-key"))
    if not all(pair_data):
        raise ConfigError(f"user {user.name!r} has half of a client certificate and key")
    base = Credential(headers, pair_data)
    return Files(token=token_file, base=base) if token_file else Static(base)


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


def _plugin(user: _Section, cluster: _Section) -> PluginCommand:
    try:
        section = msgspec.convert(user.values["exec"], _Exec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"user {user.name!r}: exec: {error}") from error
    if section.api_version not in PLUGIN_VERSIONS:
        raise ConfigError(
            f"user {user.name!r}: exec.apiVersion {section.api_version!r} is not supported, "
            f"only {' and '.join(PLUGIN_VERSIONS)}"
        )
    if section.interactive_mode == "Always":
        raise ConfigError(
            f"user {user.name!r}: exec.interactiveMode Always: there is no terminal to ask on"
        )
    command = section.command
    if os.sep in command and not os.path.isabs(command):  # noqa: PTH117
        command = str(user.folder / command)
    return PluginCommand(
        api_version=section.api_version,
        command=command,
        arguments=tuple(section.args or ()),
        environment=tuple((v.name, v.value) for v in section.env or ()),
        install_hint=section.install_hint,
        cluster=_cluster_info(cluster) if section.provide_cluster_info else None,
    )


def _cluster_info(cluster: _Section) -> dict[str, Any]:
    """Describe the cluster to a plugin that wants to know: `ExecCredential.spec.cluster`."""
    known = {key: cluster.text(key) for key in ("server", "tls-server-name", "proxy-url")}
    info: dict[str, Any] = {key: value for key, value in known.items() if value}
    if ca := cluster.data("certificate-authority"):
        info["certificate-authority-data"] = base64.b64encode(ca).decode()
    if cluster.values.get("insecure-skip-tls-verify") is True:
        info["insecure-skip-tls-verify"] = True
    for extension in cluster.values.get("extensions") or []:
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _impersonation(user: _Section) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    if user.text("as"):
        headers.append(("impersonate-user", user.text("as")))
    if user.text("as-uid"):
        headers.append(("impersonate-uid", user.text("as-uid")))
    headers += [("impersonate-group", str(g)) for g in user.values.get("as-groups") or []]
    for key, values in (user.values.get("as-user-extra") or {}).items():
        headers += [(f"impersonate-extra-{key}", str(value)) for value in values]
    return tuple(headers)


def _environment_proxy(server: str) -> str:
    """Return the proxy that HTTPS_PROXY and NO_PROXY ask for; never one to this machine itself."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if parts.scheme == "unix" or host == "localhost" or _is_loopback(host):
        return ""
    return "" if proxy_bypass(host) else getproxies().get(parts.scheme, "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def _listed(paths: tuple[Path, ...]) -> str:
    return ", ".join(map(str, paths))
