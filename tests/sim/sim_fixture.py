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

from boilerhouse.core import names
from boilerhouse.core.clock import FakeClock, new_rng, rfc3339
from boilerhouse.operator.operator import Operator
from boilerhouse.platform.kube.informer import Informer
from boilerhouse.platform.kube.resources import NODES, PODS, Key
from boilerhouse.platform.kube.status import ApiError
from boilerhouse.platform.loop.controller import Controller
from boilerhouse.tenancy.claims.objects import CLAIMS
from boilerhouse.tenancy.claims.requests.acquire import AnotherTenant, ClaimDeleted
from boilerhouse.tenancy.instances.build import RESTORE_VARIABLE
from boilerhouse.tenancy.instances.identity import Identity
from boilerhouse.tenancy.pools.objects import POOLS
from boilerhouse.tenancy.workloads.objects import WORKLOADS
from tests.sim.client import Call, Gates, SimClient, Verdict, decoded
from tests.sim.files import Helper, SimSnapshots, Store, Tenancy
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
FILES: Body = {"overlayDirs": ["/data"]}
IDLE_AFTER = timedelta(seconds=40)


class _Anybody:
    """Delivers to anybody, and has every image."""

    async def deliver(self, pod: str, uid: str, identity: Identity) -> None:
        await asyncio.sleep(0)

    async def missing(self, reference: str) -> str:
        return ""


class Process:
    """One operator or API replica, with caches of its own."""

    def __init__(self, name: str, server: SimServer, gates: Gates, helper: Helper) -> None:
        self.name = name
        self.server = server
        self.clock = FakeClock(server.now)
        client: Any = SimClient(server, gates, name)
        anybody = _Anybody()
        files = SimSnapshots(helper, gates, name)
        self.operator = Operator(
            client,
            images=anybody,
            identities=anybody,
            snapshots=files,
            hooks=files,
            clock=self.clock,
            rng=new_rng(sum(name.encode())),
            reconcile=False,
        )
        self.operator.jobs.here = True  # every process is one of several operators
        self.operator.jobs.patience = None  # by turns that are chosen, and not by the clock
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
        await self.operator.jobs.close()


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except (ApiError, AnotherTenant, ClaimDeleted, Violated):
        return  # a pass that failed; the next one sees what is there; the witness remembers


@dataclass
class Chaos:
    """What may happen besides passes, events and answers. Each costs one of its number."""

    crashes: int = 0
    failures: int = 0
    pod_deaths: int = 0
    unready: int = 0
    sick_nodes: int = 0
    cordons: int = 0
    clock_jumps: int = 0
    template_changes: int = 0
    repairs: int = 0  # of the workload, which is checked at once
    quotas: int = 0
    scalings: int = 0
    seconds: int = 0  # that pass, so that what failed is tried again
    helper_deaths: int = 0
    agent_deaths: int = 0
    reboots: int = 0
    tenant_crashes: int = 0
    full_volumes: int = 0
    bad_bytes: int = 0


@dataclass
class World:
    choose: Choose
    processes: int = 2
    tenants: tuple[str, ...] = ("alice",)
    pool: int = 1
    wishes: int = 1  # claims that users make
    other_names: int = 0  # of these, at most so many under a name of their own
    farewells: int = 0  # releases and deletions that users make
    files: bool = False  # whether the workload has directories that are saved
    past: bool = False  # whether the tenants have files from before
    writes: int = 0  # marks that tenants make
    idle: bool = False  # whether instances that are not used are released
    touches: int = 0  # uses that keep them from it
    forces: int = 0
    begin: str = ""  # Active, Leaving or ReleaseFailed: what the tenants' claims are to begin with
    full: bool = False  # whether the volume is, to begin with
    patient: bool = False  # whether users leave only what they have got
    chaos: Chaos = field(default_factory=Chaos)
    most_tasks: int = 3
    trace: list[str] = field(default_factory=list)

    async def run(self, steps: int) -> None:
        """Let `steps` things happen, then let everything settle, and judge."""
        self.server = SimServer()
        self.witness = Witness(self.server)
        self.gates = Gates()
        self.store = Store()
        self.helper = Helper(self.store)
        self.witness.attend(self.helper, IDLE_AFTER if self.idle else None)
        self.made = 0
        self._furnish()
        self.alive = [self._process(n) for n in range(self.processes)]
        try:
            await self._settle_all()  # a full pool to begin with
            await self._begin()
            self.gates.open = False
            self.store.full = self.full
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
            check_end(self.server, self.helper)
            if self.witness.violation is not None:
                raise self.witness.violation
        finally:
            for process in self.alive:
                await process.die()

    # The beginning

    def _furnish(self) -> None:
        server = self.server
        spec = dict(SPEC)
        if self.files:
            spec["filesystem"] = FILES
        if self.idle:
            spec["idle"] = {"timeoutSeconds": int(IDLE_AFTER.total_seconds())}
        server.create("user", WORKLOADS.plural, {"metadata": {"name": "web"}, "spec": spec})
        for tenant in self.tenants if self.past else ():
            self.store.commit(tenant, (f"{tenant} long ago",), "", "before")
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
        return Process(f"p{number}.{self.made}", self.server, self.gates, self.helper)

    async def _begin(self) -> None:
        """Bring the tenants' claims to where the history begins, by the shortest way."""
        if not self.begin:
            return
        budget = self.wishes, self.farewells, self.writes
        for tenant in self.tenants:
            self._apply(names.claim_name(tenant, "web"), tenant)
        await self._until_all("Active")
        for inside in self.helper.tenancies.values():
            if self.witness.tenant_of(inside.uid) != "warm":
                self._write(inside)
        if self.begin != "Active":
            for claim in self.server.all(CLAIMS.plural):
                self._release(claim["metadata"]["name"])
        if self.begin == "ReleaseFailed":
            self.store.full = True
            await self._until_all("ReleaseFailed")
        self.wishes, self.farewells, self.writes = budget
        self._hear_all()

    async def _until_all(self, phase: str) -> None:
        for _ in range(60):
            self._hear_all()
            self._pods_have_their_way()
            await self._rounds()
            self._pass_time(timedelta(seconds=0.5))
            claims = self.server.all(CLAIMS.plural)
            if {claim["status"]["phase"] for claim in claims} == {phase}:
                return self._hear_all()
        raise AssertionError(f"they do not become {phase}")

    def _hear_all(self) -> None:
        for process in self.alive:
            while news := process.news():
                process.hear(news[0])

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
        found += ((f"helper: {name}", partial(self.helper.step, name)) for name in self.helper.jobs)
        return [*found, *self._user(), *self._kubelet(), *self._tenants(), *self._misfortunes()]

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
            if self.patient and claim["status"]["phase"] not in ("Active", "ReleaseFailed"):
                continue
            found.append((f"user: delete {name}", partial(self._delete, name)))
            found.append((f"user: release {name}", partial(self._release, name)))
        for claim in self.server.all(CLAIMS.plural) if self.touches or self.forces else ():
            name, phase = claim["metadata"]["name"], claim["status"]["phase"]
            if self.touches and phase == "Active":
                found.append((f"user: uses {name}", partial(self._touch, name)))
            if self.forces and phase == "ReleaseFailed":
                found.append((f"user: forces {name}", partial(self._force, name)))
        return found

    def _touch(self, name: str) -> None:
        self.touches -= 1
        wish = {"metadata": {"annotations": {names.LAST_ACTIVITY: rfc3339(self.server.now)}}}
        self.server.merge("user", CLAIMS.plural, name, wish)

    def _force(self, name: str) -> None:
        self.forces -= 1
        wish = {"metadata": {"annotations": {names.RELEASE_FORCE: "now"}}}
        self.server.merge("user", CLAIMS.plural, name, wish)

    def _tenants(self) -> list[Option]:
        if not self.writes:
            return []
        return [
            (f"tenant in {uid}: writes", partial(self._write, inside))
            for uid, inside in self.helper.tenancies.items()
            if inside.writes
        ]

    def _write(self, inside: Tenancy) -> None:
        self.writes -= 1
        self.made += 1
        inside.marks.append(f"{self.witness.tenant_of(inside.uid)} {self.made}")

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
            phase, inside = pod.get("status", {}).get("phase"), self._inside(pod)
            if "deletionTimestamp" in pod["metadata"]:
                found.append((f"kubelet: {name} stopped", partial(self._stopped, name)))
            elif _awaits(pod) and phase is None:
                found.append((f"kubelet: {name} agent up", partial(self._agent_up, name)))
            elif phase in (None, "Pending") and (inside.marker or not _awaits(pod)):
                found.append((f"kubelet: {name} ready", partial(self._is_ready, name, True)))
            elif inside.dead and phase == "Running":
                found.append((f"kubelet: {name} restarted", partial(self._restarted, name)))
        return found

    def _inside(self, pod: Body) -> Tenancy:
        """Return what is in a Pod; its directories are made with it."""
        uid = pod["metadata"]["uid"]
        if pod.get("status", {}).get("phase") == "Failed":
            return Tenancy(uid)  # evicted: nothing is in it, and no agent says so
        return self.helper.tenancies.setdefault(uid, Tenancy(uid))

    def _agent_up(self, name: str) -> None:
        pod = self.server.get(PODS.plural, name)
        status = {"phase": "Pending", **self._containers(pod, ready=False)}
        self.server.merge("kubelet", PODS.plural, name, {"status": status}, "status")

    def _restarted(self, name: str) -> None:
        """The tenant's container has ended, and another runs on what is there."""
        self._inside(self.server.get(PODS.plural, name)).begin_anew()
        self._is_ready(name, True)

    def _containers(self, pod: Body, *, ready: bool) -> Body:
        inside, uid = self._inside(pod), pod["metadata"]["uid"]
        tenant = {
            "name": "tenant",
            "containerID": f"c-{uid}-{inside.life}",
            "restartCount": inside.life,
            "ready": ready,
            "state": {"running": {}} if ready else {"waiting": {"reason": "PodInitializing"}},
        }
        agent = {"name": "agent", "restartCount": inside.agent_life, "state": {"running": {}}}
        return {
            "podIP": f"10.0.0.{uid[1:]}",
            "containerStatuses": [tenant],
            "initContainerStatuses": [agent],
        }

    def _is_ready(self, name: str, ready: bool) -> None:
        pod = self.server.get(PODS.plural, name)
        now = rfc3339(self.server.now)
        inside = self._inside(pod)
        if not inside.started:
            inside.started = True
            inside.marks.append(f"{self.witness.tenant_of(inside.uid)} begun in {inside.uid}")
        status = {
            "phase": "Running",
            **self._containers(pod, ready=True),
            "conditions": [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}],
        }
        placed = {**pod, "spec": {**pod["spec"], "nodeName": "n1"}, "status": status}
        placed["metadata"] = dict(pod["metadata"])
        self.server.change("kubelet", PODS.plural, name, pod, placed)

    def _stopped(self, name: str) -> None:
        self._wipe(name)
        self.server.delete("kubelet", PODS.plural, name, "", "", 0)

    def _wipe(self, name: str) -> None:
        """The Pod is gone, with what was in it."""
        uid = self.server.get(PODS.plural, name)["metadata"]["uid"]
        self.helper.tenancies.pop(uid, None)

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
            if chaos.tenant_crashes and running:
                found.append((f"kubelet: {name} crashes", partial(self._crashes, name)))
            if chaos.agent_deaths and self.helper.jobs:
                found.append((f"agent in {name}: dies", partial(self._agent_dies, name)))
        rest: list[tuple[int, str, Callable[[], None]]] = [
            (chaos.seconds, "some seconds pass", self._seconds),
            (chaos.helper_deaths * len(self.helper.jobs), "helper dies", self._helper_dies),
            (chaos.reboots, "the machine starts again", self._reboot),
            (chaos.full_volumes, "the volume is full, or not", self._fill_volume),
            (chaos.bad_bytes * len(self.store.versions), "stored bytes go bad", self._spoil),
            (chaos.sick_nodes, "kubelet: node sick", self._sick),
            (chaos.cordons, "user: cordons the node, or not", self._cordon),
            (chaos.template_changes, "user: changes the workload", self._change_template),
            (chaos.repairs, "user: repairs the workload", self._repair),
            (chaos.quotas, "user: quota", self._quota),
            (chaos.scalings * self.pool, "user: scales the pool", self._scale),
        ]
        return [*found, *((name, act) for left, name, act in rest if left)]

    def _seconds(self) -> None:
        self.chaos.seconds -= 1
        self._pass_time(timedelta(seconds=8))

    def _helper_dies(self) -> None:
        self.chaos.helper_deaths -= 1
        self.helper.die()

    def _agent_dies(self, name: str) -> None:
        self.chaos.agent_deaths -= 1
        pod = self.server.get(PODS.plural, name)
        inside = self._inside(pod)
        self.helper.die(only=f"/{inside.uid} ")
        inside.agent_life += 1
        if pod.get("status", {}).get("phase") == "Running":
            self._is_ready(name, True)

    def _crashes(self, name: str) -> None:
        self.chaos.tenant_crashes -= 1
        self._restarted(name)

    def _reboot(self) -> None:
        """Everything in Pods ends and begins anew, unfrozen; what is on disk stays."""
        self.chaos.reboots -= 1
        self.helper.die()
        for pod in self.server.all(PODS.plural):
            if pod.get("status", {}).get("phase") == "Running":
                self._inside(pod).agent_life += 1
                self._restarted(pod["metadata"]["name"])

    def _fill_volume(self) -> None:
        self.chaos.full_volumes -= 1
        self.store.full = not self.store.full

    def _spoil(self) -> None:
        self.chaos.bad_bytes -= 1
        for versions in self.store.versions.values():
            self.store.corrupt.add(versions[-1].digest)

    async def _crash(self, index: int) -> None:
        self.chaos.crashes -= 1
        await self.alive[index].die()
        self.alive[index] = self._process(index)

    def _fail(self, call: Call, word: Verdict) -> None:
        self.chaos.failures -= 1
        call.turn.set_result(word)

    def _destroy(self, name: str, grace: int | None) -> None:
        self.chaos.pod_deaths -= 1
        if grace == 0:
            self._wipe(name)
        self.server.delete("user", PODS.plural, name, "", "", grace)

    def _evict(self, name: str) -> None:
        self.chaos.pod_deaths -= 1
        self._wipe(name)
        status = {"phase": "Failed", "reason": "Evicted", "conditions": None}
        self.server.merge("kubelet", PODS.plural, name, {"status": status}, "status")

    def _flip(self, name: str) -> None:
        self.chaos.unready -= 1
        self._is_ready(name, False)

    def _sick(self) -> None:
        self.chaos.sick_nodes -= 1
        self._node(ready=False)

    def _cordon(self) -> None:
        self.chaos.cordons -= 1
        spec = {"unschedulable": None if self._is_cordoned() else True}
        self.server.merge("user", NODES.plural, "n1", {"spec": spec})

    def _is_cordoned(self) -> bool:
        node = self.server.get(NODES.plural, "n1")
        return bool(node.get("spec", {}).get("unschedulable"))

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

    def _repair(self) -> None:
        self.chaos.repairs -= 1
        self.chaos.template_changes += 1
        self._change_template()
        generation = self.server.get(WORKLOADS.plural, "web")["metadata"]["generation"]
        for phase in ("Creating", "Ready"):
            status = {"phase": phase, "observedGeneration": generation}
            self.server.merge("user", WORKLOADS.plural, "web", {"status": status}, "status")

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
        await self._until_blocked()
        self.server.refuse = ""
        self.store.full = False
        self.store.corrupt.clear()
        if ("nodes", "n1") in self.server.objects:
            self._node(ready=True)
            if self._is_cordoned():
                self._cordon()
        quiet = 0
        for _ in range(60):
            before = self.server.revision
            self._hear_all()
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
            inside = self._inside(pod)
            if "deletionTimestamp" in pod["metadata"]:
                self._stopped(name)
            elif _awaits(pod) and not inside.marker and phase != "Failed":
                if phase is None:
                    self._agent_up(name)
            elif inside.dead:
                self._restarted(name)
            elif phase in (None, "Pending", "Running"):
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
        if self.gates.open:
            self.helper.finish()
        for _ in range(25):
            await asyncio.sleep(0)


def _awaits(pod: Body) -> bool:
    """Whether the tenant's process starts only after a restore."""
    return any(
        variable["name"] == RESTORE_VARIABLE
        for container in pod["spec"]["initContainers"]
        for variable in container["env"]
    )
