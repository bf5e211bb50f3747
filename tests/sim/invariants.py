"""What must hold after every single write, and what must hold when the dust has settled.

Numbers are those of the list of invariants that the product promises:
1 one instance per tenant and workload (stated over intents), 2 a Pod serves one claim, ever,
3 Active means a Pod that was bound and ready, with the tenant's files in it if there were any,
4 nothing that is stored is replaced by something with less in it, 5 no Pod is deleted by us before
everything in it is stored, unless somebody said so, 6 legal edges only, 7 pools are bounded,
8 no write that changes nothing, 9 the same end after any crash, 10 source is written once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from boilerhouse.core import names
from boilerhouse.core.clock import parse_time
from boilerhouse.tenancy.claims.intent import Intent
from boilerhouse.tenancy.claims.machine import CLAIM, ClaimPhase
from boilerhouse.tenancy.instances.seen import ClaimRef
from boilerhouse.tenancy.pools.machine import POOL, PoolPhase
from boilerhouse.tenancy.workloads.machine import WORKLOAD, WorkloadPhase
from tests.sim.files import Helper, Version
from tests.sim.server import Body, SimServer, Write

OUTSIDE = ("user", "kubelet")


class Violated(AssertionError):
    """An invariant does not hold."""


class Witness:
    """Sees every write, remembers what later writes are judged by."""

    def __init__(self, server: SimServer) -> None:
        self.server = server
        self.activated: dict[str, str] = {}  # claim UID ─► UID of the Pod it became Active with
        self.carried: dict[str, str] = {}  # Pod UID ─► the claim it carries
        self.was_ready: set[str] = set()  # UIDs of Pods that were ready while they were bound
        self.served: set[str] = set()  # UIDs of Pods whose tenant could use them
        self.active: set[str] = set()  # UIDs of Pods of claims that became Active
        self.born: dict[str, int] = {}  # claim UID ─► revision at which it came to be
        self.first: dict[str, int] = {}  # tenant ─► revision at which its first version came to be
        self.helper: Helper | None = None
        self.idle_after: timedelta | None = None
        self.largest_pool = 0
        self.violation: Violated | None = None
        server.witness = self

    def attend(self, helper: Helper, idle_after: timedelta | None) -> None:
        """Watch over files as well."""
        self.helper, self.idle_after = helper, idle_after
        helper.store.committed = self._committed

    def tenant_of(self, uid: str) -> str:
        """Return whose Pod it is; nobody's is a warm one."""
        ref = ClaimRef.parse(self.carried.get(uid, ""))
        for claim in self.server.all("boilerhouseclaims"):
            if ref is not None and claim["metadata"]["uid"] == ref.uid:
                return str(claim["spec"]["tenantId"])
        return "warm"

    def _committed(self, tenant: str, old: Version | None, new: Version) -> None:
        self.first.setdefault(tenant, self.server.revision)
        foreign = [mark for mark in new.marks if mark.split()[0] not in (tenant, "warm")]
        if foreign:
            self._violated(f"2: {foreign} are stored for {tenant}")
        less = set() if old is None else set(old.marks) - set(new.marks)
        if less and not new.side:
            self._violated(f"4: version {new.digest} of {tenant} has not {less}")

    def _violated(self, why: str) -> None:
        self.violation = self.violation or Violated(why)

    def __call__(self, write: Write) -> None:
        try:
            self._judge(write)
        except Violated as violated:
            self.violation = self.violation or violated  # a task may swallow what it raises
            raise

    def _judge(self, write: Write) -> None:
        if write.plural == "pods":
            self._pod(write)
        elif write.plural == "boilerhouseclaims":
            self._claim(write)
        self._lifecycle(write)
        self._everywhere()

    def _pod(self, write: Write) -> None:
        before, after = write.before, write.after
        body = after or before
        assert body is not None
        uid = body["metadata"]["uid"]
        carries = _annotation(body, names.CLAIM)
        if uid in self.carried and after is not None and carries != self.carried[uid]:
            raise Violated(f"2: Pod {uid} carried {self.carried[uid]} and now {carries!r}")
        if carries:
            self.carried[uid] = carries
            if names.POOL in body["metadata"].get("labels", {}):
                raise Violated(f"2: Pod {uid} is claimed and still in a pool")
            if after is not None and _ready(after):
                self.was_ready.add(uid)
        goes = after is None or (
            "deletionTimestamp" in after["metadata"]
            and before is not None
            and "deletionTimestamp" not in before["metadata"]
        )
        if after is None and write.actor not in OUTSIDE and uid in self.active:
            self._kept(write.actor, body)
        if after is None and write.actor not in OUTSIDE and self.helper is not None:
            self.helper.tenancies.pop(uid, None)
        if goes and write.actor not in OUTSIDE and uid in self.served:
            for claim in self.server.all("boilerhouseclaims"):
                if _is_active(claim) and _intent(claim) == Intent(body["metadata"]["name"], uid):
                    raise Violated(f"1: {write.actor} deletes the Pod of the Active {_name(claim)}")

    def _kept(self, actor: str, pod: Body) -> None:
        """5: everything in a Pod that a tenant has used is stored before we delete it."""
        uid = pod["metadata"]["uid"]
        inside = None if self.helper is None else self.helper.tenancies.get(uid)
        volumes = pod["spec"].get("volumes", [])
        if inside is None or not any(v["name"].startswith("overlay") for v in volumes):
            return
        assert self.helper is not None
        lost = set(inside.marks) - self.helper.store.kept(self.tenant_of(uid))
        ref = ClaimRef.parse(_annotation(pod, names.CLAIM))
        for claim in self.server.all("boilerhouseclaims"):
            if ref is not None and claim["metadata"]["uid"] == ref.uid:
                dropped = claim["status"].get("release", {}).get("drop")
                if dropped or _annotation(claim, names.RELEASE_FORCE):
                    return
        if lost:
            raise Violated(f"5: {actor} deletes {uid} with {lost} in it and in no version")

    def _filled(self, claim: Body, uid: str) -> None:
        """3: what was to be restored is in the Pod, and something was if there was something."""
        if self.helper is None or uid not in self.helper.tenancies:
            return
        tenant, refs = claim["spec"]["tenantId"], claim["status"].get("snapshot", {})
        restored = refs.get("restored", "")
        inside = self.helper.tenancies[uid]
        if restored:
            version = next(v for v in self.helper.store.versions[tenant] if v.digest == restored)
            if inside.marker != restored or not set(version.marks) <= set(inside.marks):
                raise Violated(f"3: {_name(claim)} is Active without {restored}")
            pod = self.server.get("pods", str(_intent(claim)).split("/")[0])
            if not _annotation(pod, names.RESTORED).startswith(restored):
                raise Violated(f"3: {_name(claim)} is Active, and nothing says that it is filled")
        elif claim["spec"].get("resume", True) and _has_overlays(self.server, claim):
            since = self.first.get(tenant)
            if since is not None and since < self.born[claim["metadata"]["uid"]]:
                raise Violated(f"3: {_name(claim)} is Active and empty, though files are stored")
        if not {mark.split()[0] for mark in inside.marks} <= {tenant, "warm"}:
            raise Violated(f"2: {_name(claim)} is Active with {inside.marks} in it")

    def _claim(self, write: Write) -> None:
        before, after = write.before, write.after
        if before is None and after is not None:
            self.born[after["metadata"]["uid"]] = self.server.revision
        if before is not None and after is not None:
            self._in_use(before, after)
        if write.status and before == after:
            raise Violated(f"8: {write.actor} wrote a status that was there already: {before}")
        if after is None or before is None:
            return
        uid, old, new = after["metadata"]["uid"], before["status"], after["status"]
        if old.get("source") and new.get("source") != old["source"]:
            raise Violated(f"10: source of {_name(after)} was {old['source']}")
        if new["phase"] == "Active" and old["phase"] != "Active":
            intent = _intent(after)
            if intent is None or not intent.uid:
                raise Violated(f"3: {_name(after)} is Active without a Pod by UID")
            if self.carried.get(intent.uid) != str(ClaimRef(_name(after), uid)):
                raise Violated(f"3: {_name(after)} is Active on a Pod that does not carry it")
            if intent.uid not in self.was_ready:
                raise Violated(f"3: {_name(after)} is Active on a Pod that was never ready")
            self.active.add(intent.uid)
            if old["phase"] != "ReleaseFailed":
                self._filled(after, intent.uid)
            if self.activated.setdefault(uid, intent.uid) != intent.uid:
                raise Violated(f"1: {_name(after)} became Active with two Pods")
        if (
            new["phase"] == "Active"
            and _intent(after) != _intent(before)
            and old["phase"] == "Active"
        ):
            raise Violated(f"1: {_name(after)} changed its Pod while Active")

    def _in_use(self, before: Body, after: Body) -> None:
        """Whoever was active in time is not released for idleness."""
        released = (before["status"]["phase"], after["status"]["phase"]) == ("Active", "Releasing")
        if not released or "idle" not in after["status"].get("detail", ""):
            return
        assert self.idle_after is not None
        noted = _annotation(before, names.LAST_ACTIVITY)
        if noted and self.server.now - parse_time(noted) < self.idle_after:
            raise Violated(f"{_name(after)} is idle though it was used at {noted}")

    def _lifecycle(self, write: Write) -> None:
        tables: dict[str, tuple[Any, Any]] = {
            "boilerhouseclaims": (CLAIM, ClaimPhase),
            "boilerhousepools": (POOL, PoolPhase),
            "boilerhouseworkloads": (WORKLOAD, WorkloadPhase),
        }
        if write.plural not in tables or write.before is None or write.after is None:
            return
        machine, phases = tables[write.plural]
        old, new = write.before["status"]["phase"], write.after["status"].get("phase")
        if new is None or not machine.allows(phases(old), phases(new)):
            raise Violated(f"6: {write.plural} {write.name}: {old} → {new}")
        if write.plural != "boilerhouseclaims" and write.status and write.before == write.after:
            raise Violated(f"8: {write.actor} wrote a status that was there already")

    def _everywhere(self) -> None:
        tenants: set[tuple[str, str]] = set()
        for claim in self.server.all("boilerhouseclaims"):
            intent = _intent(claim)
            if claim["status"]["phase"] != "Active" or intent is None:
                continue
            tenancy = (claim["spec"]["tenantId"], claim["spec"]["workloadRef"])
            if tenancy in tenants:
                raise Violated(f"1: two Active claims of {tenancy}")
            tenants.add(tenancy)
            pod = self.server.objects.get(("pods", intent.pod))
            if pod is not None and pod["metadata"]["uid"] == intent.uid and _ready(pod):
                self.served.add(intent.uid)
        self._pools()

    def _pools(self) -> None:
        for pool in self.server.all("boilerhousepools"):
            spec = pool["spec"]
            self.largest_pool = max(self.largest_pool, spec["size"])
            warm = [p for p in self.server.all("pods") if _label(p, names.POOL) == _name(pool)]
            alive = [p for p in warm if "deletionTimestamp" not in p["metadata"]]
            if len(alive) > self.largest_pool + spec["maxFillConcurrency"]:
                raise Violated(f"7: {len(alive)} warm Pods in a pool of {self.largest_pool}")


def check_end(server: SimServer, helper: Helper) -> None:
    """9: however it came to be, this is where it must have come to."""
    pods = {p["metadata"]["uid"]: p for p in server.all("pods")}
    claims = {c["metadata"]["uid"]: c for c in server.all("boilerhouseclaims")}
    leases = {lease["spec"]["holderIdentity"] for lease in server.all("leases")}
    tenancies: dict[tuple[str, str], list[str]] = {}
    for claim in claims.values():
        phase, intent = claim["status"]["phase"], _intent(claim)
        tenancy = (claim["spec"]["tenantId"], claim["spec"]["workloadRef"])
        if phase in ("Pending", "Releasing", "ReleaseFailed"):
            raise Violated(f"9: {_name(claim)} is still {phase}: {claim['status']}")
        if _leaving(claim):
            raise Violated(f"9: {_name(claim)} was to go and is {phase}")
        if phase == "Active":
            tenancies.setdefault(tenancy, []).append(_name(claim))
            pod = pods.get(intent.uid if intent else "")
            if pod is None or not _ready(pod) or not _label(pod, names.TENANT):
                raise Violated(f"3: {_name(claim)} is Active and has no Pod that is ready")
            inside = helper.tenancies[pod["metadata"]["uid"]]
            if not inside.writes:
                raise Violated(f"9: the instance of the Active {_name(claim)} is frozen")
        if phase == "Released" and claim["metadata"].get("finalizers"):
            raise Violated(f"9: {_name(claim)} is Released and held")
    for claim in claims.values():
        tenancy = (claim["spec"]["tenantId"], claim["spec"]["workloadRef"])
        if claim["status"]["phase"] == "Error" and tenancy not in tenancies:
            raise Violated(f"9: {_name(claim)} is in Error for nothing: {claim['status']}")
    for pod in pods.values():
        ref = ClaimRef.parse(_annotation(pod, names.CLAIM))
        if ref is None:
            continue
        owner = claims.get(ref.uid)
        intent = None if owner is None else _intent(owner)
        if intent is None or intent.uid != pod["metadata"]["uid"]:
            raise Violated(f"1: stray Pod {_name(pod)} of {ref}")
    for pool in server.all("boilerhousepools"):
        warm = [p for p in pods.values() if _label(p, names.POOL) == _name(pool)]
        if len(warm) != pool["spec"]["size"] or pool["status"]["phase"] != "Healthy":
            raise Violated(f"7: {len(warm)} warm Pods of {pool['spec']['size']}: {pool['status']}")
    for lease in leases:
        holder = ClaimRef.parse(lease)
        if holder is None or holder.uid not in claims:
            raise Violated(f"9: the Lease of {lease} was left behind")


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _annotation(body: Body, name: str) -> str:
    return str(body["metadata"].get("annotations", {}).get(name, ""))


def _label(body: Body, name: str) -> str:
    return str(body["metadata"].get("labels", {}).get(name, ""))


def _intent(claim: Body) -> Intent | None:
    return Intent.parse(_annotation(claim, names.POD))


def _has_overlays(server: SimServer, claim: Body) -> bool:
    workload = server.get("boilerhouseworkloads", claim["spec"]["workloadRef"])
    return bool(workload["spec"].get("filesystem"))


def _ready(pod: Body) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _leaving(claim: Body) -> bool:
    return "deletionTimestamp" in claim["metadata"] or bool(_annotation(claim, names.RELEASE))


def _is_active(claim: Body) -> bool:
    return claim["status"]["phase"] == "Active" and not _leaving(claim)
