"""The subresources of Pods: binding and eviction, and the way to the node for the rest.

binding   ──► spec.nodeName, once
eviction  ──► a delete, unless a disruption budget forbids it now
log, exec, attach, portforward, proxy ──► Node (apiserver/node.py)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from boilerhouse.core.clock import Clock, rfc3339
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.embedded.apiserver.node import Node, Session
from boilerhouse.embedded.apiserver.request.decoding import decode_object
from boilerhouse.embedded.apiserver.request.negotiation import Rendering
from boilerhouse.embedded.apiserver.request.options import write_options
from boilerhouse.embedded.apiserver.request.rendering import value_reply
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.apiserver.storage.store import Store, Stored
from boilerhouse.embedded.apiserver.verbs.deletion import DeleteOptions, check_preconditions
from boilerhouse.embedded.apiserver.verbs.objects import decode, found, key_of
from boilerhouse.embedded.apiserver.verbs.writing import Writer
from boilerhouse.embedded.fields.selectors import object_selector
from boilerhouse.platform.kube.exec import PROTOCOLS
from boilerhouse.platform.kube.status import (
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    InternalError,
    TooManyRequests,
    Unavailable,
)
from boilerhouse.platform.kube.wire import Reply, Request, Stream

SESSIONS = ("exec", "attach", "portforward")
_DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

Delete = Callable[[Kind, Stored, DeleteOptions], Awaitable[object]]


class Pods:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        writer: Writer,
        nodes: Mapping[str, Node],
        delete: Delete,
    ) -> None:
        self._store = store
        self._clock = clock
        self._writer = writer
        self._nodes = nodes
        self._delete = delete

    async def bind(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        """Assign a Pod to a node, once and for all."""
        binding = decode_object(request, target.kind).body
        if _name(binding) != target.name:
            raise BadRequest("name in URL does not match name in Binding object")
        stored = self._head(target)
        wanted = binding.get("target") or {}
        node = wanted.get("name") if isinstance(wanted, dict) else None
        if not isinstance(node, str) or not node:
            raise _refused("target.name: Required value")
        if wanted.get("kind", "Node") not in ("Node", ""):
            raise _refused(f'target.kind: Unsupported value: "{wanted["kind"]}"')
        self._check_unbound(target, stored, binding)
        body = decode(stored.raw)
        body["spec"]["nodeName"] = node
        sent = binding.get("metadata", {}).get("annotations") or {}
        if sent:
            body["metadata"].setdefault("annotations", {}).update(sent)
        conditions = body.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c["type"] != "PodScheduled"]
        now = rfc3339(self._clock.now())
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
        if not write_options(request, "CreateOptions").dry_run:
            await self._writer.change(target.kind, stored.key, body, stored.body)
        return value_reply(_DONE, rendering, 201)

    def _check_unbound(self, target: Target, stored: Stored, binding: Body) -> None:
        metadata = stored.body["metadata"]
        bound = stored.body["spec"].get("nodeName")
        uid = binding.get("metadata", {}).get("uid")
        if uid and uid != metadata["uid"]:
            why = f"the UID in the binding ({uid}) does not match ({metadata['uid']})"
        elif "deletionTimestamp" in metadata:
            why = f"pod {target.name} is being deleted, cannot be assigned to a host"
        elif bound:
            why = f'pod {target.name} is already assigned to node "{bound}"'
        else:
            return
        raise Conflict(
            f'Operation cannot be fulfilled on pods/binding "{target.name}": {why}',
            kind="pods/binding",
            name=target.name,
        )

    async def evict(self, target: Target, request: Request, rendering: Rendering) -> Reply:
        """Delete a Pod if the disruption budgets that cover it can spare one now."""
        eviction = decode_object(request, target.kind).body
        if _name(eviction) != target.name:
            raise BadRequest("name in URL does not match name in Eviction object")
        stored = self._head(target)
        try:
            options = msgspec.convert(eviction.get("deleteOptions") or {}, DeleteOptions)
        except msgspec.ValidationError as error:
            raise BadRequest(f"deleteOptions: {error}") from None
        check_preconditions(target.kind, stored, options)
        if _counts(stored.body):
            self._check_budgets(stored)
        if not options.dryRun and not write_options(request, "CreateOptions").dry_run:
            await self._delete(target.kind, stored, options)
        return value_reply(_DONE, rendering, 201)

    def _check_budgets(self, stored: Stored) -> None:
        labels = stored.body["metadata"].get("labels", {})
        namespace = stored.key.namespace
        covering = [
            budget.body
            for budget in self._store.scan_head("poddisruptionbudgets.policy", namespace)
            if object_selector(budget.body.get("spec", {}).get("selector") or {}).matches(labels)
        ]
        if len(covering) > 1:
            raise InternalError(
                "This pod has more than one PodDisruptionBudget, "
                "which the eviction subresource does not support."
            )
        for budget in covering:
            self._check_budget(budget, stored)

    def _check_budget(self, budget: Body, stored: Stored) -> None:
        """Count live instead of trusting the budget's status: that is written by a controller,
        which may not run or not have caught up, and the Pods are at hand."""
        spec = budget.get("spec", {})
        selector = object_selector(spec.get("selector") or {})
        pods = [
            pod.body
            for pod in self._store.scan_head("pods", stored.key.namespace)
            if selector.matches(pod.body["metadata"].get("labels"))
            and pod.body.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]
        healthy = sum(_counts(pod) and _ready(pod) for pod in pods)
        desired = _desired(spec, len(pods))
        if _ready(stored.body):
            spared = healthy > desired
        else:
            # It adds nothing to what the budget protects: it may go while others meet the budget.
            always = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
            spared = always or healthy >= desired
        if not spared:
            name = budget["metadata"]["name"]
            raise TooManyRequests(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                causes=[
                    Cause(
                        "DisruptionBudget",
                        f"The disruption budget {name} needs {desired} healthy pods "
                        f"and has {healthy} currently",
                    )
                ],
            )

    async def logs(self, target: Target, request: Request) -> Reply | Stream:
        pod = self._committed(target)
        if not pod["spec"].get("nodeName"):
            return Reply(204, b"", {})
        return await self._node(pod).logs(pod, request)

    async def proxy(self, target: Target, request: Request) -> Reply | Stream:
        target, port = _with_port(target)
        pod = self._committed(target)
        return await self._node(pod).proxy(pod, port, target.rest or "/", request)

    async def open(
        self, target: Target, request: Request, subprotocols: tuple[str, ...]
    ) -> Session:
        """Begin a WebSocket with a Pod."""
        if target.subresource == "proxy":
            target, _ = _with_port(target)
        pod = self._committed(target)
        return await self._node(pod).open(pod, target.subresource, request, subprotocols)

    async def upgrade_required(self, target: Target, request: Request) -> Reply:
        """Refuse a session request that is no WebSocket: what else is wrong with it comes first.

        kubectl asks once more by SPDY whenever a WebSocket is refused, and shows this answer.
        """
        await self.open(target, request, PROTOCOLS)  # not run: nothing has begun
        if request.headers.get("upgrade", "").lower().startswith("spdy/"):
            raise BadRequest(
                f"{target.subresource} is spoken over WebSockets here, not SPDY: "
                "use kubectl 1.31 or newer, and leave KUBECTL_REMOTE_COMMAND_WEBSOCKETS on"
            )
        raise BadRequest("Upgrade request required")

    def _node(self, pod: Body) -> Node:
        name = pod["spec"].get("nodeName")
        if not name:
            raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
        node = self._nodes.get(name)
        if node is None:
            raise Unavailable(f'node "{name}" cannot be reached: no kubelet answers for it')
        return node

    def _committed(self, target: Target) -> Body:
        return found(self._store.get(key_of(target)), target).body

    def _head(self, target: Target) -> Stored:
        return found(self._store.head(key_of(target)), target)


def _with_port(target: Target) -> tuple[Target, str]:
    """Split `name:port` and `scheme:name:port`, as pods/proxy writes them; only http is spoken."""
    parts = target.name.split(":")
    if len(parts) == 3:
        if parts[0] not in ("http", ""):
            raise BadRequest(f"pods/proxy by {parts[0]} is not supported here, only by http")
        parts = parts[1:]
    name, port = parts[0], parts[1] if len(parts) > 1 else ""
    plain = Target(target.kind, target.namespace, name, target.subresource, target.rest)
    return plain, port


def _name(body: Body) -> Any:
    metadata = body.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _refused(message: str) -> ApiError:
    return ApiError(message, code=500, reason="")


def _counts(pod: Body) -> bool:
    """Tell whether a budget has a say: a Pod that is pending, done or going disrupts nobody."""
    phase = pod.get("status", {}).get("phase")
    return phase == "Running" and "deletionTimestamp" not in pod["metadata"]


def _ready(pod: Body) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _desired(spec: Body, expected: int) -> int:
    """Return how many of `expected` Pods must stay healthy."""
    if "maxUnavailable" in spec:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return _share(spec.get("minAvailable", 0), expected)


def _share(value: object, total: int) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return -(-int(value[:-1]) * total // 100)
    return int(str(value))
