"""Two ways from operator and API to the helper; each is a handler.

in the cluster, or on one machine ─► Direct  ─► the Pod's address
outside                            ─► Proxied ─► API server ─► the Pod
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

from boilerhouse.core.names import HELPER_PORT
from boilerhouse.node.helper.layout import POD
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import PODS
from boilerhouse.platform.kube.status import ApiError, NotFound
from boilerhouse.platform.kube.wire import Stream
from boilerhouse.platform.rpc.message import Answer, Body, Request
from boilerhouse.platform.rpc.peer import Peer, Unreachable
from boilerhouse.platform.rpc.refusal import ANSWERED_BY, Refused
from boilerhouse.tenancy.snapshots.agents import reached_at

PROXIED_LIMIT = 2 << 20  # of a body through the API server, which takes 3 MiB in all
_SILENCE = 60.0


class Direct:
    """Straight to the helper's Pod, wherever it runs now."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = ""

    async def __call__(self, request: Request) -> Answer:
        """Ask the helper; `Unreachable` if it is not there."""
        known = bool(self._address)
        if not known:
            self._address = await self._look()
        try:
            return await self._ask(request)
        except Unreachable:
            address, self._address = self._address, ""
            # Where it was it is no more: look once, and ask again if it moved. Nothing has been
            # read of the body if nobody took the connection; else it must not be sent twice.
            if not known or request.body.length != 0:
                raise
            self._address = await self._look()
            if self._address == address:
                raise
            return await self._ask(request)

    async def _ask(self, request: Request) -> Answer:
        host, _, port = self._address.rpartition(":")
        return await Peer(host.strip("[]"), int(port))(request)

    async def _look(self) -> str:
        try:
            pod = await self._client.get(PODS, POD)
        except NotFound:
            raise Unreachable(f"there is no Pod {POD}") from None
        except ApiError as error:
            raise Unreachable(f"the Pod {POD} cannot be looked up: {error}") from error
        if not pod.status.pod_ip:
            raise Unreachable(f"the Pod {POD} has no address yet")
        return reached_at(pod, HELPER_PORT)


class Proxied:
    """Through the API server's pod proxy: all that an operator outside the cluster needs."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, request: Request) -> Answer:
        """Ask the helper; `Unreachable` if the answer is not the helper's own."""
        if any("\udc80" <= letter <= "\udcff" for _, value in request.query for letter in value):
            raise Refused(400, "bad-path", "names that are not UTF-8 do not pass the API server")
        try:
            if request.method == "GET":
                return await self._get(request)
            reply = await self._client.pods.proxy(
                POD,
                HELPER_PORT,
                request.path,
                method=request.method,
                query=request.query,
                headers=request.headers,
                body=await request.body.read(PROXIED_LIMIT),
                timeout=_SILENCE,
            )
        except ApiError as error:
            raise Unreachable(f"through the API server: {error}") from error
        _require_own(reply.headers, reply.status, reply.body)
        return Answer(reply.status, Body(reply.body), reply.headers)

    async def _get(self, request: Request) -> Answer:
        async with AsyncExitStack() as stack:
            stream = await stack.enter_async_context(
                self._client.pods.proxy_stream(
                    POD,
                    HELPER_PORT,
                    request.path,
                    query=request.query,
                    headers=request.headers,
                    read_timeout=_SILENCE,
                )
            )
            _require_own(stream.headers, stream.status, b"")
            return Answer(stream.status, _Streamed(stream, stack.pop_all()), stream.headers)


def _require_own(headers: Mapping[str, str], status: int, body: bytes) -> None:
    # The API server answers by itself if the Pod is not there, and then says nothing of ours.
    if ANSWERED_BY not in headers:
        raise Unreachable(f"the API server answered {status} itself {body[:200].decode('latin-1')}")


class _Streamed(Body):
    """A streamed answer, open until it is closed."""

    def __init__(self, stream: Stream, stack: AsyncExitStack) -> None:
        self.length = None
        self._chunks = stream.chunks
        self._stack = stack

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except ApiError as error:
            raise Unreachable(f"the answer broke off: {error}") from error

    async def close(self) -> None:
        await self._stack.aclose()
