"""Configuration of what runs on the node: containerd, its network plugin, kubelet, kube-proxy.

Every path lies under the node's own directory, every address in its own network namespace and
every cgroup under its own root, so that taking the node down means removing three things.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.images import PAUSE

NAME = "node1"
ADDRESS = "10.99.0.1"
PODS = "10.98.0.0/16"
CGROUP = "boilerhouse"


@dataclass(frozen=True)
class NodeFiles:
    """Where the node's parts keep what they need."""

    directory: Path

    @property
    def etc(self) -> Path:
        return self.directory / "etc"

    @property
    def run(self) -> Path:
        return self.directory / "run"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd" / "containerd.sock"

    def write(self) -> None:
        """Write every configuration file."""
        for path in (self.etc / "cni", self.run / "containerd", self.data, self.logs):
            path.mkdir(parents=True, exist_ok=True)
        (self.etc / "cni" / "10-bridge.conflist").write_text(_json(self._network()))
        (self.etc / "containerd.toml").write_text(self._containerd())
        (self.etc / "resolv.conf").write_text(f"nameserver {ADDRESS}\n")
        (self.etc / "kubelet.yaml").write_text(_json(self._kubelet()))
        (self.etc / "proxy.yaml").write_text(_json(self._proxy()))

    def _network(self) -> dict[str, Any]:
        ipam = {
            "type": "host-local",
            "dataDir": str(self.run / "addresses"),
            "ranges": [[{"subnet": PODS}]],
        }
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "isDefaultGateway": True,
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": ipam,
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}

    def _containerd(self) -> str:
        # restrict_oom_score_adj: without CAP_SYS_RESOURCE no score may be lowered.
        # netns_mounts_under_state_dir: so that leftovers of a crash are known to be ours.
        cri = "io.containerd.grpc.v1.cri"
        skipped = ["aufs", "btrfs", "zfs", "devmapper"]
        plugins = [f"io.containerd.snapshotter.v1.{name}" for name in skipped]
        plugins += ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
        return f"""version = 2
root = "{self.data}/containerd"
state = "{self.run}/containerd"
oom_score = 0
disabled_plugins = {json.dumps(plugins)}
[grpc]
  address = "{self.containerd_socket}"
[debug]
  level = "warn"
[plugins."{cri}"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  enable_unprivileged_ports = true
  max_concurrent_downloads = 1
  [plugins."{cri}".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."{cri}".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."{cri}".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."{cri}".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{self.etc}/cni"
"""

    def _kubelet(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "0.0.0.0",
            "healthzBindAddress": "127.0.0.1",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{self.pki}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{self.pki}/kubelet-server.crt",
            "tlsPrivateKeyFile": f"{self.pki}/kubelet-server.key",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUP}",
            "failCgroupV1": False,
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}",
            "clusterDomain": "cluster.local",
            "clusterDNS": [ADDRESS],
            "resolvConf": f"{self.etc}/resolv.conf",
            "oomScoreAdj": 0,
            "maxPods": 250,
            "registerNode": True,
            "serializeImagePulls": False,
            "failSwapOn": False,
            "nodeStatusUpdateFrequency": "10s",
            "syncFrequency": "10s",
            "podLogsDir": f"{self.logs}/pods",
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageMinimumGCAge": "240h",
            "staticPodPath": "",
        }

    def _proxy(self) -> dict[str, Any]:
        untouched = {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        }
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": "127.0.0.1",
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "mode": "iptables",
            "clusterCIDR": PODS,
            "hostnameOverride": NAME,
            "clientConnection": {"kubeconfig": f"{self.etc}/proxy.conf"},
            "conntrack": untouched,
            "iptables": {"minSyncPeriod": "50ms", "syncPeriod": "30s"},
        }


def _json(config: dict[str, Any]) -> str:
    return json.dumps(config, indent=1) + "\n"  # JSON is YAML
