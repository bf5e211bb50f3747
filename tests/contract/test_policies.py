"""Quotas, limit ranges, the scale subresource and evictions under a disruption budget."""

from __future__ import annotations

from typing import Any

from boilerhouse.tenancy.networks.build import policies
from tests.contract.driver import Api
from tests.contract.objects import config_map, pod, widget


async def _quota(api: Api, **hard: str) -> None:
    """Create a quota and wait until it is counted."""
    body = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    (await api.create("resourcequotas", body)).ok()

    async def counted() -> bool:
        status = (await api.get("resourcequotas", "q")).ok().get("status", {})
        return set(status.get("used", {})) == set(hard)

    await api.until(counted)


async def _used(api: Api) -> dict[str, str]:
    used: dict[str, str] = (await api.get("resourcequotas", "q")).ok()["status"]["used"]
    return used


async def test_a_quota_of_objects(api: Api) -> None:
    """The create that would exceed it is 403 and says by what; a delete makes room."""
    await _quota(api, configmaps="2")
    for name in ("a", "b"):
        (await api.create("configmaps", config_map(name))).ok()
    failure = (await api.create("configmaps", config_map("c"))).status(403, "Forbidden")
    assert failure["message"] == (
        'configmaps "c" is forbidden: exceeded quota: q, '
        "requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    )
    assert (await _used(api)) == {"configmaps": "2"}
    (await api.delete("configmaps", "a")).ok()

    async def room() -> bool:
        return (await api.create("configmaps", config_map("c"))).code == 201

    await api.until(room)


async def test_a_quota_of_resources(api: Api) -> None:
    """Requests and limits of Pods are summed up as quantities."""
    await _quota(api, pods="5", **{"requests.cpu": "1", "limits.memory": "1Gi"})

    def sized(name: str, cpu: str, memory: str) -> dict[str, Any]:
        body = pod(name)
        resources = {"requests": {"cpu": cpu, "memory": "1Mi"}, "limits": {"memory": memory}}
        body["spec"]["containers"][0]["resources"] = resources
        return body

    (await api.create("pods", sized("a", "600m", "512Mi"))).ok()
    failure = (await api.create("pods", sized("b", "500m", "256Mi"))).status(403, "Forbidden")
    assert "exceeded quota: q, requested: requests.cpu=500m" in failure["message"]
    (await api.create("pods", sized("b", "400m", "512Mi"))).ok()
    failure = (await api.create("pods", sized("c", "0", "1Mi"))).status(403, "Forbidden")
    assert "limits.memory=1Mi" in failure["message"]

    async def counted() -> bool:
        used = await _used(api)
        return used == {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}

    await api.until(counted)


async def test_a_quota_of_what_a_pod_does_not_say(api: Api) -> None:
    """Under a quota of CPU a Pod must say how much it wants."""
    await _quota(api, **{"requests.cpu": "1"})
    failure = (await api.create("pods", pod("a"))).status(403, "Forbidden")
    assert "failed quota: q: must specify requests.cpu" in failure["message"]


async def test_a_quota_of_custom_resources(api: Api) -> None:
    """count/<plural>.<group> counts objects of any kind."""
    await _quota(api, **{"count/secrets": "1"})
    (await api.create("secrets", {"metadata": {"name": "a"}})).ok()
    answer = await api.create("secrets", {"metadata": {"name": "b"}})
    failure = answer.status(403, "Forbidden")
    assert "count/secrets=1" in failure["message"]


async def test_limit_ranges_fill_in(api: Api) -> None:
    """Default limits and requests are given to containers that say nothing."""
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "500m", "memory": "64Mi"},
            "defaultRequest": {"cpu": "100m"},
            "max": {"cpu": "1"},
            "min": {"cpu": "50m"},
        }
    ]
    (await api.create("limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})).ok()

    async def defaulted() -> bool:
        created = (await api.create("pods", pod("x"), dryRun="All")).ok()
        return bool(created["spec"]["containers"][0]["resources"])

    await api.until(defaulted)
    created = (await api.create("pods", pod("a"))).ok()
    assert created["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "64Mi"},
        "requests": {"cpu": "100m", "memory": "64Mi"},
    }
    for cpu, words in (("2", "maximum cpu usage per Container is 1"), ("10m", "minimum cpu usage")):
        body = pod("b")
        amounts = {"cpu": cpu}
        body["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
        failure = (await api.create("pods", body)).status(403, "Forbidden")
        assert words in failure["message"]


async def test_scale_of_a_custom_resource(api: Api) -> None:
    """The scale subresource maps the paths of the definition."""
    created = (await api.create("widgets", widget("a", replicas=2))).ok()
    status = {"status": {"replicas": 1, "selector": "app=a"}}
    (await api.patch("widgets", "a", status, "status")).ok()
    scale = (await api.get("widgets", "a", "scale")).ok()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    assert scale["metadata"]["name"] == "a"
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    scale["spec"]["replicas"] = 5
    scaled = (await api.update("widgets", scale, "scale")).ok()
    assert scaled["spec"] == {"replicas": 5}
    plain = {**scale, "metadata": {"name": "a", "namespace": api.namespace, "uid": ""}}
    assert (await api.update("widgets", plain, "scale")).code == 200
    plain["metadata"]["uid"] = "another"
    (await api.update("widgets", plain, "scale")).status(409, "Conflict")
    after = (await api.get("widgets", "a")).ok()
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == 2
    patched = (await api.patch("widgets", "a", {"spec": {"replicas": 1}}, "scale")).ok()
    assert patched["spec"] == {"replicas": 1}


async def test_scale_is_checked(api: Api) -> None:
    """Negative counts and stale versions are refused."""
    (await api.create("widgets", widget("a", replicas=2))).ok()
    scale = (await api.get("widgets", "a", "scale")).ok()
    answer = await api.patch("widgets", "a", {"spec": {"replicas": -1}}, "scale")
    answer.status(422, "Invalid")
    (await api.patch("widgets", "a", {"spec": {"size": 5}})).ok()
    scale["spec"]["replicas"] = 3
    (await api.update("widgets", scale, "scale")).status(409, "Conflict")


async def test_scale_of_a_stateful_set(api: Api) -> None:
    """Built-in kinds scale the same way."""
    spec = {
        "serviceName": "s",
        "replicas": 0,
        "selector": {"matchLabels": {"app": "s"}},
        "template": {
            "metadata": {"labels": {"app": "s"}},
            "spec": {"containers": [{"name": "c", "image": "localhost/echo:1"}]},
        },
    }
    (await api.create("statefulsets", {"metadata": {"name": "s"}, "spec": spec})).ok()
    scaled = (await api.patch("statefulsets", "s", {"spec": {"replicas": 2}}, "scale")).ok()
    assert scaled["spec"] == {"replicas": 2}
    assert scaled["status"]["selector"] == "app=s"
    after = (await api.get("statefulsets", "s")).ok()
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (2, 2)


async def _running(api: Api, name: str) -> None:
    (await api.create("pods", pod(name, {"app": "x"}, nodeName="somewhere"))).ok()
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    (await api.patch("pods", name, {"status": ready}, "status")).ok()


def _eviction(name: str, **options: Any) -> dict[str, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return body | ({"deleteOptions": options} if options else {})


async def test_eviction_deletes(api: Api) -> None:
    """Without a budget an eviction is a deletion, with its options."""
    await _running(api, "a")
    path = api.path("pods", "a", "eviction")
    answer = await api.call("POST", path, _eviction("a", gracePeriodSeconds=5))
    assert answer.code == 201
    assert answer.body["status"] == "Success"
    marked = (await api.get("pods", "a")).ok()
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_eviction_under_a_budget(api: Api) -> None:
    """A budget that allows no disruption makes an eviction 429; the Pod stays."""
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    (await api.create("poddisruptionbudgets", budget)).ok()
    await _running(api, "a")

    path = api.path("pods", "a", "eviction")

    async def judged() -> bool:
        failure = (await api.call("POST", path, _eviction("a"))).status(429, "TooManyRequests")
        return "still being processed" not in failure["details"]["causes"][0]["message"]

    await api.until(judged)
    failure = (await api.call("POST", path, _eviction("a"))).status(429, "TooManyRequests")
    assert failure["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert failure["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert "deletionTimestamp" not in (await api.get("pods", "a")).ok()["metadata"]
    await _running(api, "b")

    async def allowed() -> bool:
        return (await api.call("POST", path, _eviction("a"))).code == 201

    await api.until(allowed)
    second = api.path("pods", "b", "eviction")

    async def again() -> bool:
        return (await api.call("POST", second, _eviction("b"))).code == 429

    await api.until(again)


async def test_eviction_of_nothing(api: Api) -> None:
    """What is not there cannot be evicted."""
    path = api.path("pods", "nothing", "eviction")
    (await api.call("POST", path, _eviction("nothing"))).status(404, "NotFound")


async def test_our_network_policies_come_back_as_they_were_built(api: Api) -> None:
    """Nothing is defaulted into them: their keeper compares them as they are."""
    for name, body in policies().items():
        made = (await api.create("networkpolicies", body)).ok()
        assert made["spec"] == body["spec"], name
