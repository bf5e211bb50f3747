"""Kubeconfig files, several of them, and the service account of a Pod."""

from __future__ import annotations

import base64
import textwrap
from pathlib import Path

import pytest

from boilerhouse.platform.kube.config import Config, ConfigError, from_kubeconfig, in_cluster, load
from boilerhouse.platform.kube.credentials import Certificate


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def kubeconfig(path: Path, user: str = "", cluster: str = "", context: str = "") -> Path:
    """Write a kubeconfig with one of each; the arguments are further fields in flow style."""
    return write(
        path,
        f"""
        current-context: main
        contexts:
        - {{name: main, context: {{cluster: c, user: u, {context}}}}}
        clusters:
        - {{name: c, cluster: {{server: "https://kube.example:6443", {cluster}}}}}
        users:
        - {{name: u, user: {{{user}}}}}
        """,
    )


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_a_plain_kubeconfig(tmp_path: Path) -> None:
    """Server, namespace, authority, certificate and token are read."""
    path = kubeconfig(
        tmp_path / "config",
        user=f"token: abc, client-certificate-data: {b64('C')}, client-key-data: {b64('K')}",
        cluster=f"certificate-authority-data: {b64('CA')}, tls-server-name: other.example",
        context="namespace: shop",
    )
    config = from_kubeconfig(path)
    credential = await config.credentials.current()
    assert (config.server, config.namespace) == ("https://kube.example:6443", "shop")
    assert (config.ca, config.server_name, config.insecure) == (b"CA", "other.example", False)
    assert credential.headers == (("authorization", "Bearer abc"),)
    assert credential.certificate == Certificate(b"C", b"K")


async def test_paths_are_relative_to_the_file_that_names_them(tmp_path: Path) -> None:
    """Not to the directory we happen to be in."""
    folder = tmp_path / "sub"
    path = kubeconfig(
        folder / "config",
        user="client-certificate: me.crt, client-key: keys/me.key, tokenFile: token",
        cluster="certificate-authority: ca.crt",
    )
    write(folder / "me.crt", "C")
    write(folder / "keys" / "me.key", "K")
    write(folder / "ca.crt", "CA")
    write(folder / "token", "abc\n")
    config = from_kubeconfig(path)
    credential = await config.credentials.current()
    assert config.ca == b"CA"
    assert credential.certificate == Certificate(b"C", b"K")
    assert credential.headers == (("authorization", "Bearer abc"),)


async def test_several_files_are_one(tmp_path: Path) -> None:
    """The first file to name a context, cluster or user wins; missing files are passed over."""
    one = write(
        tmp_path / "one" / "config",
        """
        current-context: a
        contexts: [{name: a, context: {cluster: shared, user: ann, namespace: first}}]
        clusters: [{name: shared, cluster: {server: "https://one"}}]
        """,
    )
    two = write(
        tmp_path / "two" / "config",
        """
        current-context: b
        contexts:
        - {name: a, context: {cluster: shared, user: ann, namespace: second}}
        - {name: b, context: {cluster: shared, user: ann, namespace: third}}
        clusters: [{name: shared, cluster: {server: "https://two"}}]
        users: [{name: ann, user: {tokenFile: token}}]
        """,
    )
    write(tmp_path / "two" / "token", "t")
    environ = {"KUBECONFIG": f"{tmp_path}/none:{one}:{two}"}
    config = load(environ=environ)
    assert (config.server, config.namespace) == ("https://one", "first")
    assert (await config.credentials.current()).headers == (("authorization", "Bearer t"),)
    assert load("b", environ).namespace == "third"


async def test_a_password_is_sent_as_basic_authentication(tmp_path: Path) -> None:
    """Kubernetes itself has dropped it, proxies in front of it have not."""
    config = from_kubeconfig(kubeconfig(tmp_path / "c", user="username: ann, password: 'a:b'"))
    credential = await config.credentials.current()
    assert credential.headers == (("authorization", f"Basic {b64('ann:a:b')}"),)


async def test_a_token_file_wins_over_a_token(tmp_path: Path) -> None:
    """As in kubectl: the file is the one that is kept fresh."""
    write(tmp_path / "token", "fresh")
    config = from_kubeconfig(kubeconfig(tmp_path / "c", user="token: stale, tokenFile: token"))
    assert (await config.credentials.current()).headers == (("authorization", "Bearer fresh"),)


def test_impersonation_is_read(tmp_path: Path) -> None:
    """User, groups and extras become headers."""
    user = "token: t, as: ann, as-groups: [dev, ops], as-user-extra: {scopes: [x]}"
    assert from_kubeconfig(kubeconfig(tmp_path / "c", user=user)).headers == (
        ("impersonate-user", "ann"),
        ("impersonate-group", "dev"),
        ("impersonate-group", "ops"),
        ("impersonate-extra-scopes", "x"),
    )


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    """A Unix socket needs no credentials."""
    path = write(
        tmp_path / "c",
        """
        current-context: a
        contexts: [{name: a, context: {cluster: c}}]
        clusters: [{name: c, cluster: {server: "unix:///run/kube.sock"}}]
        """,
    )
    config = from_kubeconfig(path)
    assert config.is_unix
    assert config.namespace == "default"


@pytest.mark.parametrize(
    ("user", "cluster", "says"),
    [
        ("auth-provider: {name: gcp}", "", "auth-provider"),
        ("exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}", "", "v1alpha1"),
        (
            "exec: {command: x, apiVersion: client.authentication.k8s.io/v1,"
            " interactiveMode: Always}",
            "",
            "interactiveMode",
        ),
        ("exec: {apiVersion: client.authentication.k8s.io/v1}", "", "command"),
        ("client-certificate: a.crt", "", "half of a client certificate"),
        (f"client-key-data: {b64('K')}", "", "half of a client certificate"),
        ("client-certificate-data: '%%', client-key-data: '%%'", "", "not base64"),
        ("token: [1]", "", "token is not text"),
        ("", "certificate-authority: none.crt", "none.crt cannot be read"),
        ("", "proxy-url: 'socks5://proxy:1080'", "socks5"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    tmp_path: Path, user: str, cluster: str, says: str
) -> None:
    """Each refusal says which part of the configuration it is about."""
    path = kubeconfig(tmp_path / "c", user=user, cluster=cluster)
    with pytest.raises(ConfigError, match=says):
        from_kubeconfig(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not YAML"),
        ("[1, 2]", "not a kubeconfig"),
        ("", "no current-context"),
        ("current-context: a", "no context 'a'"),
        ("contexts: [{context: {}}]", "has no name"),
        ("users: [{name: a, user: 5}]", "not a mapping"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: gone}}]}", "'gone'"),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: c}}],"
            " clusters: [{name: c, cluster: {}}]}",
            "has no server",
        ),
        (
            "{current-context: a, contexts: [{name: a, context: {cluster: c}}],"
            " clusters: [{name: c, cluster: {server: 'ftp://x'}}]}",
            "want https://",
        ),
    ],
)
def test_a_broken_file_is_a_clear_error(tmp_path: Path, text: str, says: str) -> None:
    """No kubeconfig, however mangled, ends in a traceback of ours."""
    with pytest.raises(ConfigError, match=says):
        from_kubeconfig(write(tmp_path / "c", text))


def test_the_known_contexts_are_named_when_the_wanted_one_is_not_there(tmp_path: Path) -> None:
    """The error tells what to choose from."""
    with pytest.raises(ConfigError, match="there is main"):
        from_kubeconfig(kubeconfig(tmp_path / "c"), context="other")


def test_the_home_directory_is_the_default(tmp_path: Path) -> None:
    """Without KUBECONFIG it is ~/.kube/config, else a Pod's account, else a clear error."""
    environ = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match="no cluster to talk to"):
        load(environ=environ)
    kubeconfig(tmp_path / ".kube" / "config", user="token: t")
    assert load(environ=environ).server == "https://kube.example:6443"
    with pytest.raises(ConfigError, match="no such file"):
        load(environ={"HOME": str(tmp_path), "KUBECONFIG": "/nonexistent/x"})


async def test_the_service_account_of_a_pod(tmp_path: Path) -> None:
    """Address from the environment; authority, namespace and token from the mounted files."""
    write(tmp_path / "token", "abc")
    write(tmp_path / "ca.crt", "CA")
    write(tmp_path / "namespace", "shop\n")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster(environ, tmp_path)
    assert (config.server, config.namespace, config.ca) == ("https://[fd00::1]:443", "shop", b"CA")
    assert (await config.credentials.current()).headers == (("authorization", "Bearer abc"),)


def test_a_pod_without_a_token_is_told_why(tmp_path: Path) -> None:
    """The usual reason is in the message."""
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    with pytest.raises(ConfigError, match="not a Pod"):
        in_cluster({}, tmp_path)


def test_proxies_come_from_the_cluster_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """proxy-url wins; HTTPS_PROXY and NO_PROXY count as for kubectl; loopback is never proxied."""
    path = tmp_path / "c"
    monkeypatch.setenv("HTTPS_PROXY", "http://env:3128")
    monkeypatch.setenv("NO_PROXY", "kube.internal")
    assert from_kubeconfig(kubeconfig(path)).proxy == "http://env:3128"
    own = kubeconfig(path, cluster="proxy-url: 'http://own:3128'")
    assert from_kubeconfig(own).proxy == "http://own:3128"
    text = kubeconfig(path).read_text()
    path.write_text(text.replace("kube.example", "kube.internal"))
    assert from_kubeconfig(path).proxy == ""
    path.write_text(text.replace("kube.example", "127.0.0.1"))
    assert from_kubeconfig(path).proxy == ""


@pytest.mark.parametrize("server", ["", "kube.example", "https://", "ssh://x"])
def test_an_address_must_be_one(server: str) -> None:
    """Half an address is refused where it is given, not where it is used."""
    with pytest.raises(ConfigError, match="want https://"):
        Config(server)
