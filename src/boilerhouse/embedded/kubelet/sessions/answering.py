"""The kubelet's side of the Node port: what the API server asks it about its Pods.

pods/log, exec, attach, proxy ─► Answers ─► PodWorker
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from boilerhouse.core.clock import Clock
from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.apiserver.node import Session
from boilerhouse.embedded.kubelet.pod.pod import PodWorker
from boilerhouse.embedded.kubelet.sessions import podlogs, podproxy, streams
from boilerhouse.platform.kube.status import Unavailable
from boilerhouse.platform.kube.wire import Reply, Request, Stream


class Answers:
    """Implements `embedded.node.Node` for the workers, which are kept by the UID of their Pod."""

    def __init__(self, workers: Mapping[str, PodWorker], clock: Clock) -> None:
        self._workers = workers
        self._clock = clock

    async def logs(self, pod: Body, request: Request) -> Reply | Stream:
        return await asyncio.to_thread(podlogs.logs, pod, self._worker(pod), request, self._clock)

    async def proxy(self, pod: Body, port: str, path: str, request: Request) -> Reply | Stream:
        number = podproxy.port_number(pod, port)
        worker = self._worker(pod)
        connect = None if worker is None else worker.way_to(number)
        if worker is None or connect is None:
            raise Unavailable(f"pod {pod['metadata']['name']} is not running")
        return await podproxy.forward(connect, worker.facts.ip, number, path, request)

    async def open(
        self, pod: Body, subresource: str, request: Request, subprotocols: tuple[str, ...]
    ) -> Session:
        worker = self._worker(pod)
        return streams.open_session(pod, worker, subresource, request, subprotocols)

    def _worker(self, pod: Body) -> PodWorker | None:
        return self._workers.get(pod["metadata"]["uid"])
