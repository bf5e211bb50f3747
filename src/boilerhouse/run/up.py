"""`boilerhouse up`: everything on one machine, in one process, until it is told to stop.

signals ─► stop ────────────────────┐
World.open ─► running_components (API, …) ───┴─► serve ─► running_components ends ─► World.close

The first Ctrl-C (or SIGTERM) stops in good order and exits 0: that is what was asked for. A second
one does not wait and exits 130. What keeps it from starting is one sentence and exit 1.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import structlog
import uvloop

from boilerhouse.core.environment import KEY_VARIABLE
from boilerhouse.core.names import NAMESPACE
from boilerhouse.edge.api import signing
from boilerhouse.edge.api.auth import is_loopback
from boilerhouse.edge.api.serving import address_of, bind_api
from boilerhouse.embedded.apiserver.http.pki import PkiError
from boilerhouse.embedded.apiserver.storage.store import StoreFailed, StoreLocked
from boilerhouse.embedded.kubelet.container import SandboxError
from boilerhouse.embedded.world import World
from boilerhouse.operator import catalogue
from boilerhouse.platform.kube.client import ALL, Client
from boilerhouse.platform.loop.watchdog import watched
from boilerhouse.platform.serving.listening import ListenError
from boilerhouse.run import logs
from boilerhouse.run.advice import KINDS, Advice, not_watched
from boilerhouse.run.banner import Served, banner, own_command
from boilerhouse.run.components import Dependencies, operator_of, running_components
from boilerhouse.run.descriptors import Division, TooFewDescriptors, take_descriptors
from boilerhouse.run.garbage import collect_seldom, collect_when_quiet
from boilerhouse.run.kubelet import kubelet_settings
from boilerhouse.run.localimages import LocalImages
from boilerhouse.run.localplatform import LocalPlatform
from boilerhouse.run.outlet import STDOUT, complain
from boilerhouse.run.product import Product
from boilerhouse.run.stopping import stop_on_signals
from boilerhouse.tenancy.claims.applying.jobs import SAVES
from boilerhouse.tenancy.snapshots.agents import Agents

SWITCH = 0.001  # seconds for which the event loop waits for a thread of ours that computes

log = structlog.get_logger()


class UpLine(NamedTuple):
    """What `up` is told."""

    data: Path | None  # None = the user's own data directory
    host: str
    port: int
    kube_host: str
    kube_port: int | None  # None = the one used before, else a free one
    strict: bool
    reserve: int | None  # bytes of disk kept back; None = a share of it


def run(line: UpLine) -> int:
    """Serve until stopped; return the exit code."""
    logs.configure()
    collect_seldom()
    sys.setswitchinterval(SWITCH)
    directory = line.data
    try:
        division = take_descriptors()
        directory = (line.data or default_directory()).absolute()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(directory, line, division))
    except (
        StoreLocked, StoreFailed, ListenError, PkiError, SandboxError, TooFewDescriptors
    ) as error:  # fmt: skip
        complain(str(error))
        return 1
    except OSError as error:
        complain(_refused(str(directory), error))
        return 1
    return 0


def _refused(directory: str, error: OSError) -> str:
    """Say in one line what the system refused. A copy of many files fails with a list of all."""
    why = str(error)
    if isinstance(error, shutil.Error):
        why = str(error.args[0][0][2])
    full = os.strerror(errno.ENOSPC)
    if full in why:
        return f"{directory} cannot be used: {full}: make room, and start again"
    files = (str(name or "") for name in (error.filename, error.filename2))
    ours = any(name.startswith(directory) for name in files)
    return f"{directory} cannot be used: {why}" if ours else f"startup failed: {why}"


def default_directory() -> Path:
    """Return $XDG_DATA_HOME/boilerhouse; an unset, empty or relative variable does not count."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else _home() / ".local" / "share") / "boilerhouse"


def _home() -> Path:
    try:
        home = Path(os.environ["HOME"]) if "HOME" in os.environ else Path.home()
    except RuntimeError:  # a user whom this system does not know
        home = Path()
    if not home.is_absolute():
        raise StoreFailed("there is no home directory to keep data in: set HOME, or use --data")
    return home


async def _serve(directory: Path, line: UpLine, division: Division) -> None:
    stop = stop_on_signals()
    key = os.environ.get(KEY_VARIABLE, "")
    # Bound first: what cannot be served need not be started.
    bound = bind_api(line.host, line.port, key=key)
    product = Product()
    kubelet = kubelet_settings(product.builtins(), pods=division.pods, reserve=line.reserve)
    async with AsyncExitStack() as stack:
        stack.callback(bound.close)
        stack.push_async_callback(product.close)
        world = await World.open(
            directory,
            host=line.kube_host,
            port=line.kube_port,
            namespace=NAMESPACE,
            crds=catalogue.crds(),
            kubelet=kubelet,
        )
        stack.push_async_callback(world.close)
        assert world.kubelet is not None, "it was asked for"
        disk = world.kubelet.disk
        disk.subscribe(lambda _: product.press(disk.growth))
        disk.reserve_changed = product.reserve_changed
        product.press(disk.growth)
        unenforced = world.kubelet.sandboxes.limits_unenforced
        if line.strict and unenforced is not None:
            raise SandboxError(f"--strict: limits cannot be enforced here: {unenforced}")
        images = LocalImages(world.kubelet.images)
        platform = LocalPlatform(world.kubelet.sandboxes)
        client = Client(world.transport, NAMESPACE)
        dependencies = Dependencies(
            client=client,
            images=images,
            shelf=images,
            platform=platform,
            route=product.route,
            agents=Agents(client),
            signing=await asyncio.to_thread(signing.in_directory, directory),
            api_url=address_of(bound),
            gate=kubelet.gate,
            # Tenants are packed on the processors that answer claims: no more than there are.
            saves=min(SAVES, len(os.sched_getaffinity(0))),
            warnings=world.kubelet.warnings,
            commands=division.commands,
            at_hand=True,
        )
        operator = operator_of(dependencies)
        world.server.advisers.append(Advice(NAMESPACE, platform, operator.events))
        running = await stack.enter_async_context(
            running_components(dependencies, operator=operator, bound=bound, key=key)
        )
        stack.enter_context(watched())  # from now on callers wait
        running.begin("collector", lambda stopping: collect_when_quiet(dependencies.gate, stopping))
        lacking = [*platform.shortcomings(), *await _not_watched(dependencies.client)]
        served = Served(
            host=line.host,
            api=dependencies.api_url,
            key=bool(key),
            kube=world.address,
            socket=world.socket,
            kubeconfig=world.kubeconfig,
            directory=world.directory,
            notes=tuple(lacking),
        )
        STDOUT.write(banner(served, own_command()) + "\n")
        if not is_loopback(line.kube_host):
            log.warning(
                "up.kubernetes_api_open_to_the_network",
                host=line.kube_host,
                guard="whoever has the token of the kubeconfig may do everything",
            )
        log.info(
            "up.serving",
            api=dependencies.api_url,
            server=world.address,
            kubeconfig=str(world.kubeconfig),
            socket=str(world.socket),
            data=str(directory),
        )
        for words in lacking:
            log.warning("up.lacking", what=words)
        log.info(
            "up.limits",
            descriptors=division.descriptors,
            connections=division.connections,
            commands=division.commands,
            pods=world.kubelet.pods_at_most,
        )
        died = world.kubelet.died
        died.add_done_callback(lambda _: stop.set())
        await stop.wait()
        if died.done():
            raise SandboxError("the fork server has died, and every container with it: start again")
        log.info("up.stopping", hurry="another Ctrl-C does not wait for what is under way")
    log.info("up.stopped")


async def _not_watched(client: Client) -> list[str]:
    """Say in which other namespaces there are objects of ours, which nothing looks after."""
    elsewhere = f"metadata.namespace!={NAMESPACE}"
    found: set[str] = set()
    for resource in KINDS:
        items = (await client.list(resource, namespace=ALL, fields=elsewhere)).items
        found |= {item.metadata.namespace for item in items}
    return [not_watched(name, NAMESPACE) for name in sorted(found)]
