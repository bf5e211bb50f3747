"""A world of several processes that work on the same claims, driven step by step.

choose() ─► one thing happens: a call passes its gate, or fails; an event reaches a cache; a process
            starts a pass, or dies; a Pod gets ready, or dies; a user wants something; time passes

The processes are the production `Operator` (readers, decisions, appliers, spares, rivals, acquirer)
on a simulated API. Who chooses makes the kind of test: a seeded generator (test_random.py), or a
search through all choices (test_search.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from boilerhouse.claims.acquire import AnotherTenant
from boilerhouse.claims.objects import CLAIMS
from boilerhouse.core import names
from boilerhouse.core.clock import FakeClock, rfc3339, rng
from boilerhouse.instances.identity import Identity
from boilerhouse.kube.informer import Informer
from boilerhouse.kube.resources import NODES, PODS, Key
from boilerhouse.kube.status import ApiError
from boilerhouse.loop.controller import Controller
from boilerhouse.operator.operator import Operator
from boilerhouse.pools.objects import POOLS
from boilerhouse.workloads.objects import WORKLOADS
from tests.sim.client import Call, Gates, SimClient, Verdict, decoded
from tests.sim.invariants import Violated, Witness, check_end
from tests.sim.server import Body, SimServer

Choose = Callable[[list[str]], int]
Option = tuple[str, Callable[[], Any]]  # what would happen, and how to make it happen

SPEC: Body = {
    "version": "1",
    "image": {"ref": "app"},
    "resources": {"vcpus": 1, "memoryMb": 64, "diskGb": 1},
    "network": {"expose": [{"guest": 8080}]},
}


class _Anybody:
    """Delivers to anybody, and has every image."""

    async def deliver(self, pod: str, uid: str, identity: Identity) -> None:
        await asyncio.sleep(0)

    async def missing(self, reference: str) -> str:
        return ""


class Process:
    """One operator or API replica, with caches of its own."""

    def __init__(self, name: str, server: SimServer, gates: Gates) -> None:
        self.name = name
        self.server = server
        self.clock = FakeClock(server.now)
        client: Any = SimClient(server, gates, name)
        anybody = _Anybody()
        self.operator = Operator(
            client,
            images=anybody,
            identities=anybody,
            clock=self.clock,
            chance=rng(sum(name.encode())),
            reconcile=False,
        )
        self.informers: dict[str, Informer[Any]] = {
            informer.resource.plural: informer
            for informer in (
                self.operator.claim_informer,
                self.operator.pod_informer,
                self.operator.pool_informer,
                self.operator.workload_informer,
                self.operator.node_informer,
            )
        }
        self.heard = len(server.log)
        for plural, informer in self.informers.items():
            items = [decoded(informer.resource, body) for body in server.all(plural)]
            informer.cache.replace(informer.cache.mark(), items, server.revision)
        self._behind = dict.fromkeys(self.informers, self.heard)
        self.tasks: set[asyncio.Task[None]] = set()

    def news(self) -> list[str]:
        """Return the resources of which there are events not heard yet."""
        return [plural for plural in self.informers if self._next(plural) is not None]

    def hear(self, plural: str) -> None:
        """Take in the next event of a resource."""
        index = self._next(plural)
        assert index is not None
        kind, _, body = self.server.log[index]
        self._behind[plural] = index + 1
        informer = self.informers[plural]
        informer.cache.apply(decoded(informer.resource, body), deleted=kind == "DELETED")

    def _next(self, plural: str) -> int | None:
        for index in range(self._behind[plural], len(self.server.log)):
            if self.server.log[index][1] == plural:
                return index
            self._behind[plural] = index + 1
        return None

    def claims(self) -> list[Key]:
        """Return the claims that this process knows of, if only by a Pod."""
        return sorted(self.operator.claims.keys())

    def begin(self, controller: Controller[Key, Any, Any], key: Key) -> None:
        """Start a pass."""
        self.start(controller.run_inline(key))

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(_quietly(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def die(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except (ApiError, AnotherTenant, Violated):
        return  # a pass that failed; the next one sees what is there; the witness remembers


@dataclass
class Chaos:
    """What may happen besides passes, events and answers. Each costs one of its number."""

    crashes: int = 0
    failures: int = 0
    pod_deaths: int = 0
    unready: int = 0
    sick_nodes: int = 0
    clock_jumps: int = 0
    template_changes: int = 0
    quotas: int = 0
    scalings: int = 0


@dataclass
class World:
    choose: Choose
    processes: int = 2
    tenants: tuple[str, ...] = ("alice",)
    pool: int = 1
    wishes: int = 1  # claims that users make
    other_names: int = 0  # of these, at most so many under a name of their own
    farewells: int = 0  # releases and deletions that users make
    chaos: Chaos = field(default_factory=Chaos)
    most_tasks: int = 3
    trace: list[str] = field(default_factory=list)

    async def run(self, steps: int) -> None:
        """Let `steps` things happen, then let everything settle, and judge."""
        self.server = SimServer()
        self.witness = Witness(self.server)
        self.gates = Gates()
        self.made = 0
        self._furnish()
        self.alive = [self._process(n) for n in range(self.processes)]
        try:
            await self._settle_all()  # a full pool to begin with
            self.gates.open = False
            for _ in range(steps):
                options = self._options()
                if not options:
                    break
                picked = self.choose([name for name, _ in options])
                name, act = options[picked]
                self.trace.append(name)
                made = act()
                if made is not None:
                    await made
                await self._until_blocked()
                if self.witness.violation is not None:
                    raise self.witness.violation
            await self._settle_all()
            check_end(self.server)
            if self.witness.violation is not None:
                raise self.witness.violation
        finally:
            for process in self.alive:
                await process.die()

    # The beginning

    def _furnish(self) -> None:
        server = self.server
        server.create("user", WORKLOADS.plural, {"metadata": {"name": "web"}, "spec": SPEC})
        if self.pool:
            spec = {"workloadRef": "web", "size": self.pool, "maxFillConcurrency": 2}
            server.create("user", POOLS.plural, {"metadata": {"name": "warm"}, "spec": spec})
        server.create("kubelet", NODES.plural, {"metadata": {"name": "n1"}})
        self._node(ready=True)

    def _node(self, *, ready: bool) -> None:
        status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        self.server.merge("kubelet", NODES.plural, "n1", {"status": status}, "status")

    def _process(self, number: int) -> Process:
        self.made += 1
        return Process(f"p{number}.{self.made}", self.server, self.gates)

    # One thing that happens

    def _options(self) -> list[Option]:
        found: list[Option] = []
        for call in self.gates.waiting:
            where = "answered" if call.answered else "asked"
            found.append(
                (f"{call.actor}: {call.what} {where}", partial(call.turn.set_result, "go"))
            )
        for process in self.alive:
            found += (
                (f"{process.name}: hears {plural}", partial(process.hear, plural))
                for plural in process.news()
            )
            if len(process.tasks) < self.most_tasks:
                found += self._passes(process)
        return [*found, *self._user(), *self._kubelet(), *self._misfortunes()]

    def _passes(self, process: Process) -> list[Option]:
        operator = process.operator
        found: list[Option] = [
            (f"{process.name}: pass {key.name}", partial(process.begin, operator.claims, key))
            for key in process.claims()
            if not operator.claims.busy(key)
        ]
        if process is self.alive[0]:  # pools and workloads have a leader
            controllers: list[tuple[Controller[Key, Any, Any], str]] = [(operator.workloads, "web")]
            if self.pool:
                controllers.append((operator.pools, "warm"))
            found += (
                (f"{process.name}: pass {name}", partial(process.begin, controller, key))
                for controller, name in controllers
                if not controller.busy(key := Key("sim", name))
            )
        return found

    def _user(self) -> list[Option]:
        found: list[Option] = []
        for tenant in self.tenants if self.wishes else ():
            found += (
                (f"{process.name}: acquire for {tenant}", partial(self._acquire, process, tenant))
                for process in self.alive
            )
            apply_as = [names.claim_name(tenant, "web")]
            if self.other_names:
                apply_as.append(f"own-{tenant}")
            found += (
                (f"user: apply {name}", partial(self._apply, name, tenant))
                for name in apply_as
                if (CLAIMS.plural, name) not in self.server.objects
            )
        for claim in self.server.all(CLAIMS.plural) if self.farewells else ():
            name = claim["metadata"]["name"]
            found.append((f"user: delete {name}", partial(self._delete, name)))
            found.append((f"user: release {name}", partial(self._release, name)))
        return found

    def _acquire(self, process: Process, tenant: str) -> None:
        self.wishes -= 1
        wait = timedelta(hours=1)
        process.start(process.operator.acquirer.acquire(tenant, "web", wait=wait))

    def _apply(self, name: str, tenant: str) -> None:
        self.wishes -= 1
        if name.startswith("own-"):
            self.other_names -= 1
        spec = {"tenantId": tenant, "workloadRef": "web"}
        self.server.create("user", CLAIMS.plural, {"metadata": {"name": name}, "spec": spec})

    def _delete(self, name: str) -> None:
        self.farewells -= 1
        self.server.delete("user", CLAIMS.plural, name, "", "", None)

    def _release(self, name: str) -> None:
        self.farewells -= 1
        wish = {"metadata": {"annotations": {names.RELEASE: "now"}}}
        self.server.merge("user", CLAIMS.plural, name, wish)

    def _kubelet(self) -> list[Option]:
        found: list[Option] = []
        for pod in self.server.all(PODS.plural):
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                found.append((f"kubelet: {name} stopped", partial(self._stopped, name)))
            elif pod.get("status", {}).get("phase") is None:
                found.append((f"kubelet: {name} ready", partial(self._is_ready, name, True)))
        return found

    def _is_ready(self, name: str, ready: bool) -> None:
        pod = self.server.get(PODS.plural, name)
        now = rfc3339(self.server.now)
        status = {
            "phase": "Running",
            "podIP": f"10.0.0.{pod['metadata']['uid'][1:]}",
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}],
        }
        placed = {**pod, "spec": {**pod["spec"], "nodeName": "n1"}, "status": status}
        placed["metadata"] = dict(pod["metadata"])
        self.server.change("kubelet", PODS.plural, name, pod, placed)

    def _stopped(self, name: str) -> None:
        self.server.delete("kubelet", PODS.plural, name, "", "", 0)

    # Misfortunes

    def _misfortunes(self) -> list[Option]:
        chaos = self.chaos
        found: list[Option] = []
        if chaos.crashes:
            for n, process in enumerate(self.alive):
                found.append((f"{process.name}: dies", partial(self._crash, n)))
        for call in self.gates.waiting if chaos.failures else ():
            word: Verdict = "lose" if call.answered else "fail"
            found.append((f"{call.actor}: {call.what} {word}", partial(self._fail, call, word)))
        for pod in self.server.all(PODS.plural):
            name, running = pod["metadata"]["name"], pod.get("status", {}).get("phase") == "Running"
            if chaos.pod_deaths:
                found.append((f"user: destroys {name}", partial(self._destroy, name, 0)))
            if chaos.pod_deaths and "deletionTimestamp" not in pod["metadata"]:
                found.append((f"user: stops {name}", partial(self._destroy, name, None)))
                found.append((f"kubelet: evicts {name}", partial(self._evict, name)))
            if chaos.unready and running:
                found.append((f"kubelet: {name} unready", partial(self._flip, name)))
        if chaos.clock_jumps:
            for process in self.alive:
                for hours in (-2, 3):
                    jump = partial(self._jump, process, hours)
                    found.append((f"{process.name}: clock {hours:+} h", jump))
            found.append(("a minute passes", self._minute))
        rest: list[tuple[int, str, Callable[[], None]]] = [
            (chaos.sick_nodes, "kubelet: node sick", self._sick),
            (chaos.template_changes, "user: changes the workload", self._change_template),
            (chaos.quotas, "user: quota", self._quota),
            (chaos.scalings * self.pool, "user: scales the pool", self._scale),
        ]
        return [*found, *((name, act) for left, name, act in rest if left)]

    async def _crash(self, index: int) -> None:
        self.chaos.crashes -= 1
        await self.alive[index].die()
        self.alive[index] = self._process(index)

    def _fail(self, call: Call, word: Verdict) -> None:
        self.chaos.failures -= 1
        call.turn.set_result(word)

    def _destroy(self, name: str, grace: int | None) -> None:
        self.chaos.pod_deaths -= 1
        self.server.delete("user", PODS.plural, name, "", "", grace)

    def _evict(self, name: str) -> None:
        self.chaos.pod_deaths -= 1
        status = {"phase": "Failed", "reason": "Evicted", "conditions": None}
        self.server.merge("kubelet", PODS.plural, name, {"status": status}, "status")

    def _flip(self, name: str) -> None:
        self.chaos.unready -= 1
        self._is_ready(name, False)

    def _sick(self) -> None:
        self.chaos.sick_nodes -= 1
        self._node(ready=False)

    def _jump(self, process: Process, hours: int) -> None:
        self.chaos.clock_jumps -= 1
        process.clock.set(process.clock.now() + timedelta(hours=hours))

    def _minute(self) -> None:
        self.chaos.clock_jumps -= 1
        self._pass_time(timedelta(minutes=1))

    def _pass_time(self, by: timedelta) -> None:
        self.server.now += by
        for process in self.alive:
            process.clock.advance(by)

    def _change_template(self) -> None:
        self.chaos.template_changes -= 1
        entry = {"env": {"CHANGE": str(self.server.revision)}}
        self.server.merge("user", WORKLOADS.plural, "web", {"spec": {"entrypoint": entry}})

    def _quota(self) -> None:
        self.chaos.quotas -= 1
        self.server.refuse = "" if self.server.refuse else "exceeded quota"

    def _scale(self) -> None:
        self.chaos.scalings -= 1
        size = self.server.get(POOLS.plural, "warm")["spec"]["size"]
        other = {"spec": {"size": 1 if size > 1 else 3}}
        self.server.merge("user", POOLS.plural, "warm", other)

    # The end

    async def _settle_all(self) -> None:
        """Let every event, pass and Pod have its way until nothing changes any more."""
        self.gates.open = True
        for call in list(self.gates.waiting):
            if not call.turn.done():
                call.turn.set_result("go")
        self.server.refuse = ""
        if ("nodes", "n1") in self.server.objects:
            self._node(ready=True)
        quiet = 0
        for _ in range(60):
            before = self.server.revision
            for process in self.alive:
                while news := process.news():
                    process.hear(news[0])
                # The last to be told is the first to act: who is told first has no advantage.
            await self._rounds()
            self._pods_have_their_way()
            self._pass_time(timedelta(minutes=4))
            self._collect()
            quiet = quiet + 1 if self.server.revision == before else 0
            if quiet == 3:
                return
        last = [f"{kind} {plural}/{b['metadata']['name']}" for kind, plural, b in self.server.log]
        raise AssertionError(f"it never settles: {last[-8:]}")

    async def _rounds(self) -> None:
        for process in self.alive:
            operator = process.operator
            for key in process.claims():
                await _quietly(operator.claims.run_until(key, lambda: False))
        leader = self.alive[0].operator
        await _quietly(leader.workloads.run_until(Key("sim", "web"), lambda: False))
        if self.pool:
            await _quietly(leader.pools.run_until(Key("sim", "warm"), lambda: False))
        await self._until_blocked()

    def _pods_have_their_way(self) -> None:
        for pod in self.server.all(PODS.plural):
            name = pod["metadata"]["name"]
            phase = pod.get("status", {}).get("phase")
            if "deletionTimestamp" in pod["metadata"]:
                self._stopped(name)
            elif phase in (None, "Running"):
                ready = pod.get("status", {}).get("conditions") or [{"status": "False"}]
                if ready[0]["status"] != "True":
                    self._is_ready(name, True)

    def _collect(self) -> None:
        """Remove what is owned by objects that are gone, as the garbage collector does."""
        uids = {body["metadata"]["uid"] for body in self.server.objects.values()}
        for lease in self.server.all("leases"):
            owners = lease["metadata"].get("ownerReferences", [])
            if owners and not any(owner["uid"] in uids for owner in owners):
                self.server.delete("collector", "leases", lease["metadata"]["name"], "", "", None)

    async def _until_blocked(self) -> None:
        """Let every task go on until it waits at a gate, or for somebody."""
        for _ in range(25):
            await asyncio.sleep(0)
