"""`boilerhouse operator` and `boilerhouse api`: the components on a Kubernetes cluster.

KUBECONFIG | service account ─► Client ─┬─► operator: reconciles while it leads; probes on a port
                                        └─► api: REST, inline passes, no leader on the claim path

They are two programs so that each can be scaled, restarted and given rights by itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import uvloop

from boilerhouse.core import connections
from boilerhouse.core.clock import new_uid
from boilerhouse.core.environment import KEY_VARIABLE
from boilerhouse.edge.api import signing
from boilerhouse.edge.api.serving import address_of, bind_api
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.config import ConfigError, load
from boilerhouse.platform.kube.leader import Elector
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.kube.transport import Http
from boilerhouse.platform.loop.probes import Probes
from boilerhouse.platform.loop.watchdog import watched
from boilerhouse.platform.serving.listening import Listener, ListenError, bind
from boilerhouse.run import logs
from boilerhouse.run.components import Dependencies, operator_of, running_components
from boilerhouse.run.descriptors import TooFewDescriptors, take_descriptors
from boilerhouse.run.outlet import complain
from boilerhouse.run.stopping import stop_on_signals
from boilerhouse.tenancy.instances.settings import Settings
from boilerhouse.tenancy.snapshots.agents import Agents
from boilerhouse.tenancy.snapshots.build import HelperSettings
from boilerhouse.tenancy.snapshots.routes import Direct, Proxied
from boilerhouse.tenancy.workloads.images import TrustedImages

LEASE = "boilerhouse-operator"
NAMESPACE_VARIABLE = "K8S_NAMESPACE"
DEFAULT_NAMESPACE = "boilerhouse"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What both programs are told."""

    context: str
    namespace: str
    image: str
    api_url: str


def run_operator(options: Options, probes_port: int) -> int:
    """Reconcile until stopped; return the exit code."""
    return _run(lambda stop: _operator(options, probes_port, stop))


def run_api(options: Options, host: str, port: int) -> int:
    """Serve the REST API until stopped; return the exit code."""
    return _run(lambda stop: _api(options, host, port, stop))


def _run(serve: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    logs.configure()

    async def until_stopped() -> None:
        with watched():
            await serve(stop_on_signals())

    try:
        take_descriptors()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped())
    except (ConfigError, ListenError, ApiError, TooFewDescriptors) as error:
        complain(str(error))
        return 1
    return 0


async def _operator(options: Options, probes_port: int, stop: asyncio.Event) -> None:
    async with _means(options) as dependencies, AsyncExitStack() as stack:
        elector = Elector(dependencies.client, LEASE, f"{socket.gethostname()}-{new_uid()[:8]}")
        operator = operator_of(dependencies, elector=elector)
        probes = _Endless(operator.manager.probes())
        listener = Listener(bind("0.0.0.0", [probes_port]), probes, connections.PROBES)  # noqa: S104  probes come from the node
        await listener.start()
        stack.push_async_callback(listener.stop)
        await stack.enter_async_context(running_components(dependencies, operator=operator))
        log.info("operator.running", namespace=dependencies.client.namespace)
        await stop.wait()


async def _api(options: Options, host: str, port: int, stop: asyncio.Event) -> None:
    key = os.environ.get(KEY_VARIABLE, "")
    bound = bind_api(host, port, key=key)
    async with _means(options) as dependencies, AsyncExitStack() as stack:
        stack.callback(bound.close)
        operator = operator_of(dependencies, reconcile=False)
        await stack.enter_async_context(
            running_components(dependencies, operator=operator, bound=bound, key=key)
        )
        log.info("api.serving", api=address_of(bound), namespace=dependencies.client.namespace)
        await stop.wait()


@asynccontextmanager
async def _means(options: Options) -> AsyncGenerator[Dependencies]:
    """Reach the cluster; the token key is made by whoever comes first."""
    config = load(options.context)
    namespace = options.namespace or os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE
    client = Client(Http(config), namespace)
    inside = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    try:
        yield Dependencies(
            client=client,
            images=TrustedImages(),
            # From outside, Pods can only be reached through the API server.
            route=Direct(client) if inside else Proxied(client),
            agents=Agents(client),
            signing=await signing.in_secret(client),
            api_url=options.api_url or f"http://boilerhouse-api.{namespace}.svc:3000",
            settings=Settings(product_image=options.image),
            helper=HelperSettings(image=options.image),
        )
    finally:
        await client.close()


class _Endless:
    """Probes as a listener wants its application: there are no streams to end."""

    def __init__(self, inner: Probes) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._inner(scope, receive, send)

    def end_streams(self) -> None:
        """Nothing goes on."""
