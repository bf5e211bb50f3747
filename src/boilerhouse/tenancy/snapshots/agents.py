"""Where an instance's agent is, and with which token it is spoken to.

Pod name (and UID) ─► Pod (informer, else live) + Secret agent-<pod> ─► AgentAt, remembered
"""

from __future__ import annotations

from dataclasses import dataclass, field

from boilerhouse.core.errors import Retry
from boilerhouse.core.names import AGENT_PORT, PORTS, agent_secret_name
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.resources import PODS, SECRETS
from boilerhouse.platform.kube.status import NotFound

REMEMBERED = 2_000  # most are gone: the others are found again by one request


class AgentUnavailable(Retry):
    """The instance's agent cannot be asked now: not started, gone, or cut off."""


@dataclass(frozen=True, slots=True)
class AgentAt:
    """An agent: of which Pod, at which address."""

    uid: str
    address: str  # host:port
    token: str = field(repr=False)


class Agents:
    """Finds agents. With an informer of the instances, most of it costs no request."""

    def __init__(self, client: Client, pods: Informer[Pod] | None = None) -> None:
        self._client = client
        self._pods = pods
        self._found: dict[str, AgentAt] = {}

    def hear(self, pods: Informer[Pod]) -> None:
        """Look first at what an informer knows."""
        self._pods = pods

    async def find(self, name: str, uid: str = "") -> AgentAt:
        """Return the agent of a Pod; `AgentUnavailable` if the Pod is gone, or another by now."""
        pod = await self._pod(name, uid)
        address = reached_at(pod, AGENT_PORT)
        known = self._found.get(name)
        if known is None or (known.uid, known.address) != (pod.metadata.uid, address):
            known = AgentAt(pod.metadata.uid, address, await self._token(name))
            if len(self._found) >= REMEMBERED:
                del self._found[next(iter(self._found))]
            self._found[name] = known
        return known

    def forget(self, name: str) -> None:
        """It did not work with what we remember."""
        self._found.pop(name, None)

    async def _pod(self, name: str, uid: str) -> Pod:
        if self._pods is not None:
            held = self._pods.get(self._client.namespace, name)
            if held is not None and held.status.pod_ip and uid in ("", held.metadata.uid):
                return held
        try:
            pod = await self._client.get(PODS, name)
        except NotFound:
            raise AgentUnavailable(f"instance {name} is gone") from None
        if uid not in ("", pod.metadata.uid):
            raise AgentUnavailable(f"instance {name} is gone; another one has its name")
        if not pod.status.pod_ip:
            raise AgentUnavailable(f"instance {name} has no address yet")
        return pod

    async def _token(self, name: str) -> str:
        try:
            secret = await self._client.get(SECRETS, agent_secret_name(name))
            return secret.data["token"].decode()
        except (NotFound, KeyError):
            raise AgentUnavailable(f"the token of {name}'s agent is gone") from None


def reached_at(pod: Pod, port: int) -> str:
    """Return where a Pod's port is: at the Pod's address, moved if the node had to move it."""
    for pair in pod.metadata.annotations.get(PORTS, "").split(","):
        asked, _, moved = pair.partition(":")
        if asked == str(port) and moved.isdecimal():
            port = int(moved)
    host = pod.status.pod_ip
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
