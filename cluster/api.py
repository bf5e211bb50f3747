"""`ApiWorld`: a real API server with its controllers on loopback, without root, in four seconds.

ApiWorld(dir).start() ──► etcd, kube-apiserver, kube-controller-manager ──► dir/kubeconfig

Pods stay Pending: there is no scheduler and no node. The API server can be stopped, killed and
started again under its clients; address and data stay.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from cluster import controlplane, pki
from cluster.build import API, build, missing
from cluster.controlplane import ControlPlane, until
from cluster.places import ClusterError, Places
from cluster.processes import Processes

# What the API alone promises rests on these; the publisher of the root certificate is left out
# so that a new namespace is empty but for its service account.
_CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,serviceaccount-controller,"
    "resourcequota-controller,disruption-controller"
)
_ORDER = ("kcm", "apiserver", "etcd")


class ApiWorld:
    """One API-only Kubernetes in one directory."""

    def __init__(self, directory: Path, places: Places | None = None) -> None:
        self.directory = directory
        self.places = places or Places.user()
        self.processes = Processes(directory / "run", directory / "logs")
        self._plane: ControlPlane | None = None
        self._watchman: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def url(self) -> str:
        return self.plane.url

    @property
    def plane(self) -> ControlPlane:
        if self._plane is None:
            raise ClusterError("the API world was not started")
        return self._plane

    def start(self) -> None:
        """Start everything, building what is missing first."""
        if missing(self.places, API):
            build(self.places, API, lambda line: print(line, file=sys.stderr, flush=True))
        for attempt in (1, 2, 3):
            try:
                self._start()
                return
            except ClusterError as error:
                # The ports were free when they were chosen; somebody else may have been faster.
                if attempt == 3 or "address already in use" not in str(error):
                    raise
                self.stop()

    def _start(self) -> None:
        api, etcd, peer, kcm = _free_ports(4)
        self._plane = plane = ControlPlane(
            self.places, self.directory, "127.0.0.1", "192.0.2.1", api, etcd, peer, kcm, False
        )
        pki.make(plane.pki, plane.certs())
        for path in (self.kubeconfig, self.directory / "etc" / "admin.conf"):
            pki.kubeconfig(path, plane.url, plane.pki, "admin")
        self._watchman = subprocess.Popen(
            [sys.executable, "-m", "cluster.watchman", str(self.directory)],
            stdin=subprocess.PIPE, cwd=Path(__file__).parent.parent, start_new_session=True,
        )  # fmt: skip
        self.processes.spawn("etcd", plane.etcd())
        self._spawn_apiserver()
        self._spawn_controllers()
        self.wait_ready()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        until(
            "the default service account",
            lambda: controlplane.get(plane.url, plane.pki, account)[0] == 200,
            lambda: self.processes.require(*_ORDER),
            60,
        )

    def wait_ready(self, seconds: float = 60) -> None:
        """Wait until the API server says it is ready."""
        until(
            "kube-apiserver",
            lambda: controlplane.get(self.url, self.plane.pki, "/readyz") == (200, b"ok"),
            lambda: self.processes.require("etcd", "apiserver"),
            seconds,
        )

    def stop_apiserver(self) -> None:
        """Stop the API server in an orderly way; a drain is cut short after two seconds."""
        self.processes.stop("apiserver")

    def kill_apiserver(self) -> None:
        """SIGKILL the API server: connections break in the middle of whatever they carried."""
        self.processes.kill("apiserver")

    def start_apiserver(self) -> None:
        """Start the API server again, at the same address and on the same data."""
        self._spawn_apiserver()
        # The old ones back off for many seconds after they lost their server.
        self.processes.kill("kcm")
        self._spawn_controllers()
        self.wait_ready()

    def forget_history(self) -> None:
        """Compact etcd, and restart the API server so that its watch cache starts at now."""
        self.kill_apiserver()
        controlplane.compact(self.plane.etcd_port)
        self.start_apiserver()

    def stop(self) -> None:
        """Stop everything; the directory stays."""
        for name in _ORDER:
            self.processes.stop(
                name, grace=0
            )  # data of a test world: no drain is worth waiting for
        if self._watchman is not None:
            with contextlib.suppress(BrokenPipeError):
                self._watchman.communicate()
            self._watchman = None

    def _spawn_apiserver(self) -> None:
        plane = self.plane
        self.processes.spawn("apiserver", plane.apiserver("--max-requests-inflight=2000"))

    def _spawn_controllers(self) -> None:
        # Before the API server is ready, on purpose: they retry, and the two starts overlap.
        flag = f"--controllers={_CONTROLLERS}"
        self.processes.spawn("kcm", self.plane.controllers(flag))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            ports.append(sock.getsockname()[1])
        return ports
