"""A whole Kubernetes node on this machine, in one network namespace: `up` and `down`.

up: packages ─► build ─► images ─► namespace ─► control plane ─► containerd ─► kubelet ─► Ready

Nothing listens in the host's namespace but one relay on loopback, which the kubeconfig names.
Both commands may be repeated; `up` after a crash first removes what the crash left.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cluster import images, leftovers, nodeconfig, packages, pki
from cluster.build import NODE, Say, build
from cluster.controlplane import ControlPlane, get, until
from cluster.leftovers import NETNS
from cluster.nodeconfig import NodeFiles
from cluster.places import ClusterError, Places
from cluster.processes import Processes

_API_PORT = 6443
_HOST_PORT = 16443
# kubelet first: it restarts what is killed under it
_STOP = (
    ("kubelet",),
    ("proxy", "scheduler", "kcm", "relay"),
    ("containerd",),
    ("apiserver",),
    ("etcd",),
)
_ALL = tuple(name for group in _STOP for name in group)


def kubeconfig(places: Places) -> Path:
    """Return the kubeconfig that works from the host."""
    return places.node / "kubeconfig"


def is_up(places: Places) -> bool:
    """Tell whether the node runs and is Ready."""
    processes = _processes(places)
    if not all(processes.alive(name) for name in _ALL) or not kubeconfig(places).exists():
        return False
    return _node_ready(_host_url(places), places.node / "pki")


def up(places: Places, say: Say) -> None:
    """Bring the node up; one that is up stays as it is."""
    _require_root()
    with _locked(places):
        if is_up(places):
            say("the node is already up")
            return
        packages.install(say)
        os.environ["PATH"] = packages.search_path()
        build(places, NODE, say)
        archives = images.make(places, say)
        _remove(places)
        since = time.monotonic()
        try:
            _start(places, archives)
        except BaseException:
            _stop(places)
            raise
        say(f"the node is Ready after {time.monotonic() - since:.1f} s")


def down(places: Places, say: Say) -> None:
    """Take the node down and remove everything but logs, certificates and binaries."""
    _require_root()
    with _locked(places):
        os.environ["PATH"] = packages.search_path()
        _remove(places)
        say("the node is down")


def load_image(places: Places, archive: Path) -> None:
    """Give a node that is up an image; one of the same name is replaced."""
    _import_image(NodeFiles(places.node), archive)


def _start(places: Places, archives: list[Path]) -> None:
    files = NodeFiles(places.node)
    plane = ControlPlane(
        places, places.node, "0.0.0.0", nodeconfig.ADDRESS, _API_PORT, 2379, 2380, 10257
    )
    shutil.rmtree(files.logs, ignore_errors=True)
    files.write()
    pki.make(files.pki, (*plane.certs(), *_certs()))
    for user in ("admin", "kubelet", "scheduler", "proxy"):
        pki.kubeconfig(files.etc / f"{user}.conf", plane.url, files.pki, user)
    leftovers.make_cgroups()
    _make_namespace()
    processes = _processes(places)
    processes.spawn("etcd", plane.etcd(), netns=NETNS)
    processes.spawn("apiserver", plane.apiserver(), netns=NETNS)
    processes.spawn("kcm", plane.controllers(), netns=NETNS)
    processes.spawn("containerd", ["containerd", "-c", files.etc / "containerd.toml"], netns=NETNS)
    url = _start_relay(processes)
    pki.kubeconfig(kubeconfig(places), url, files.pki, "admin")
    _import_images(files, processes, archives)
    until(
        "kube-apiserver",
        lambda: get(url, files.pki, "/readyz") == (200, b"ok"),
        lambda: processes.require("etcd", "apiserver", "relay"),
        90,
    )
    _start_node(places, files, processes)
    until(
        "the node's readiness",
        lambda: _node_ready(url, files.pki),
        lambda: processes.require(*_ALL),
        90,
    )


def _start_node(places: Places, files: NodeFiles, processes: Processes) -> None:
    scheduler = files.etc / "scheduler.conf"
    processes.spawn(
        "scheduler",
        [
            places.binary("kube-scheduler"),
            f"--kubeconfig={scheduler}",
            f"--authentication-kubeconfig={scheduler}",
            f"--authorization-kubeconfig={scheduler}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--profiling=false",
            "--v=1",
        ],
        netns=NETNS,
    )
    # The default asks for more open files than a machine without CAP_SYS_RESOURCE may have.
    open_files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes.spawn(
        "kubelet",
        [
            places.binary("kubelet"),
            f"--config={files.etc / 'kubelet.yaml'}",
            f"--kubeconfig={files.etc / 'kubelet.conf'}",
            f"--hostname-override={nodeconfig.NAME}",
            f"--node-ip={nodeconfig.ADDRESS}",
            f"--root-dir={files.data / 'kubelet'}",
            f"--cert-dir={files.data / 'kubelet-pki'}",
            f"--max-open-files={open_files}",
            "--v=1",
        ],
        netns=NETNS,
    )
    processes.spawn(
        "proxy",
        [places.binary("kube-proxy"), f"--config={files.etc / 'proxy.yaml'}", "--v=1"],
        netns=NETNS,
    )


def _import_images(files: NodeFiles, processes: Processes, archives: list[Path]) -> None:
    ctr = ["ctr", "-a", str(files.containerd_socket), "-n", "k8s.io"]

    def answers() -> bool:
        return subprocess.run([*ctr, "version"], capture_output=True).returncode == 0

    until("containerd", answers, lambda: processes.require("containerd"), 30)
    for archive in archives:
        _import_image(files, archive)


def _import_image(files: NodeFiles, archive: Path) -> None:
    ctr = ["ctr", "-a", str(files.containerd_socket), "-n", "k8s.io"]
    done = subprocess.run([*ctr, "images", "import", archive], capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"containerd did not take {archive}: {done.stderr}")


def _start_relay(processes: Processes) -> str:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", _HOST_PORT))
        except OSError:
            listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        listener.set_inheritable(True)
        script = Path(__file__).with_name("relay.py")
        argv = [sys.executable, str(script), str(listener.fileno()), str(_API_PORT)]
        processes.spawn("relay", argv, netns=NETNS)
        return f"https://127.0.0.1:{listener.getsockname()[1]}"


def _make_namespace() -> None:
    def ip(*args: str) -> None:
        subprocess.run(["ip", *args], check=True, capture_output=True)

    name = NETNS.name
    ip("netns", "add", name)
    ip("-n", name, "link", "set", "lo", "up")
    # The node's address sits on a bridge without ports: not every kernel has the dummy device.
    ip("-n", name, "link", "add", "k8s0", "type", "bridge")
    ip("-n", name, "addr", "add", f"{nodeconfig.ADDRESS}/24", "dev", "k8s0")
    ip("-n", name, "link", "set", "k8s0", "up")
    # Leads nowhere; Kubernetes looks for the interface of the default route.
    ip("-n", name, "route", "add", "default", "via", nodeconfig.ADDRESS, "dev", "k8s0")
    settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.route_localnet=1"]
    subprocess.run(["nsenter", f"--net={NETNS}", "sysctl", "-qw", *settings], check=True)


def _certs() -> tuple[pki.Cert, ...]:
    name = nodeconfig.NAME
    return (
        pki.server("kubelet-server", f"DNS:{name}", "IP:127.0.0.1", f"IP:{nodeconfig.ADDRESS}"),
        pki.Cert("kubelet", f"/O=system:nodes/CN=system:node:{name}"),
        pki.Cert("scheduler", "/CN=system:kube-scheduler"),
        pki.Cert("proxy", "/CN=system:kube-proxy"),
    )


def _node_ready(url: str, certs: Path) -> bool:
    code, body = get(url, certs, f"/api/v1/nodes/{nodeconfig.NAME}")
    if code != 200:
        return False
    node = json.loads(body)
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    return ready and not node["spec"].get("taints") and get(url, certs, account)[0] == 200


def _host_url(places: Places) -> str:
    config = json.loads(kubeconfig(places).read_text())
    url: str = config["clusters"][0]["cluster"]["server"]
    return url


def _processes(places: Places) -> Processes:
    files = NodeFiles(places.node)
    return Processes(files.run, files.logs)


def _stop(places: Places) -> None:
    processes = _processes(places)
    for group in _STOP:
        # Nothing here is worth a drain: the data goes too.
        processes.stop(*group, grace=1 if group == ("containerd",) else 0)
    leftovers.remove(NodeFiles(places.node))


def _remove(places: Places) -> None:
    _stop(places)
    files = NodeFiles(places.node)
    kubeconfig(places).unlink(missing_ok=True)
    for path in (files.run, files.data):
        shutil.rmtree(path, ignore_errors=True)


def _require_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError("a node needs root: namespaces, cgroups and mounts are made")


@contextlib.contextmanager
def _locked(places: Places) -> Iterator[None]:
    places.root.mkdir(parents=True, exist_ok=True)
    with (places.root / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
