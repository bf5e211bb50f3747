"""What is wrong is told, where a user looks for it."""

from __future__ import annotations

import json

from gameday.scenario import held, scenario
from gameday.stage import GROUP, PODS, Body, Stage

WEB: Body = {"access": "none", "expose": [{"guest": 8099}]}


@scenario("a readiness probe that fails is an Event and the claim's detail")
def failing_probe(stage: Stage) -> str:
    stage.workload("deaf", network=WEB)
    answer = stage.rest.post("/tenants/x/claim", json={"workload": "deaf"}, params={"wait": 3})
    held(answer.status_code == 202, f"the claim was answered {answer.status_code}")
    stage.until(
        lambda: "probe" in (told := json.dumps(stage.status("x", "deaf"))) and told,
        "the claim says that its readiness probe fails",
    )
    events = stage.kube.get("/api/v1/namespaces/boilerhouse/events").json()["items"]
    held(any(one["reason"] == "Unhealthy" for one in events), "there is no Event Unhealthy")
    stage.rest.post("/tenants/x/release/force", json={"workload": "deaf"})
    return "Event Unhealthy, and the claim's status names the probe"


@scenario("a crash loop is told by claim, with the way to its log")
def crash_loop(stage: Stage) -> str:
    stage.workload("crash", "echo oops >&2; exit 7")
    stage.rest.post("/tenants/y/claim", json={"workload": "crash"})

    def told() -> str:
        answer = stage.rest.post("/tenants/y/claim", json={"workload": "crash"}, params={"wait": 1})
        return answer.text if "logs" in answer.text and "7" in answer.text else ""

    words = stage.until(told, "a second claim says why, and which command shows the log")
    stage.rest.post("/tenants/y/release/force", json={"workload": "crash"})
    return f"told: {words[:120]}"


@scenario("a trigger says that triggers are not built")
def trigger(stage: Stage) -> str:
    stage.workload("box")
    spec = {"type": "cron", "workloadRef": "box", "tenant": {"static": "z"},
            "config": {"schedule": "* * * * *"}}  # fmt: skip
    answer = stage.rest.put("/triggers/tick", json={"spec": spec})
    held(answer.status_code in (200, 201), f"the trigger: {answer.text[:200]}")
    status = stage.until(
        lambda: (
            (found := stage.rest.get("/triggers/tick").json()["status"])["phase"] == "Error"
            and found
        ),
        "its phase is Error",
    )
    stage.rest.delete("/triggers/tick")
    return f"Error: {status.get('detail', '')}"


@scenario("a pool whose Pods find no room says which, and why")
def no_room(stage: Stage) -> str:
    stage.workload("huge", resources={"vcpus": 64, "memoryMb": 64, "diskGb": 1})
    stage.rest.put("/pools/huge", json={"spec": {"workloadRef": "huge", "size": 3}})
    detail = stage.until(
        lambda: "nsufficient cpu" in (told := json.dumps(pool(stage, "huge"))) and told,
        "the pool's status says: insufficient cpu",
    )
    stage.rest.delete("/pools/huge")
    return f"told: {json.loads(detail).get('detail', '')[:120]}"


def pool(stage: Stage, name: str) -> Body:
    found: Body = stage.kube.get(f"{GROUP}/boilerhousepools/{name}").json()
    return dict(found.get("status", {}))


@scenario("a Pod that is Ready gives no reason why it is not")
def no_stale_reason(stage: Stage) -> str:
    web: Body = {"access": "none", "expose": [{"guest": 8080}]}
    stage.workload("web", "exec python3 -m http.server 8080", network=web)
    stage.claim("reason", "web")
    stale = [
        condition
        for pod in stage.kube.get(PODS).json()["items"]
        for condition in pod["status"].get("conditions", ())
        if condition["status"] == "True" and condition.get("reason") == "ContainersNotReady"
    ]
    held(not stale, f"stale: {stale[:1]}")
    stage.release("reason", "web")
    return "no Ready condition carries ContainersNotReady"
