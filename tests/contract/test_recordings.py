"""The recorded answers that unit tests hold our code to, asked again of whole servers.

tests/unit/embedded/apiserver/*/*_cases.py ──► both worlds ──► the same *_outcomes.json

In the real world this shows that the recordings are true; in ours, that nothing between the wire
and the code under the unit tests bends them.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import pytest_asyncio

from tests.api_fixture import World
from tests.contract.conftest import install
from tests.contract.driver import Answer, Api, Body
from tests.contract.objects import crd
from tests.unit.embedded.apiserver.builtin import builtin_cases
from tests.unit.embedded.apiserver.builtin.test_builtin_cases import DIFFERENT
from tests.unit.embedded.apiserver.cel import cel_cases
from tests.unit.embedded.apiserver.crd import crd_cases
from tests.unit.embedded.apiserver.schemas import schema_cases

GROUP = "recorded.example.com"
BATCH = 20
UNKNOWN = re.compile(r'unknown field \\"(.*?)\\""')
# What differs from run to run, or is not kept by the embedded server.
VARYING = {
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "managedFields",
    "namespace",
    "selfLink",
}


@pytest_asyncio.fixture(loop_scope="session")
async def recorded(api: Api, world: World) -> Api:
    """The namespace, in a world with one definition for each schema of the table."""
    if "recorded" not in world.installed:
        definitions = [
            crd(f"case{n}s", f"Case{n}", schema_cases.root(case.schema), group=GROUP)
            for n, case in enumerate(schema_cases.CASES)
        ]
        await install(api, *definitions)
        world.installed.add("recorded")
    return api


@pytest.mark.parametrize("number", range(len(schema_cases.CASES)))
async def test_schemas(recorded: Api, number: int) -> None:
    """An object is pruned, defaulted and judged as recorded."""
    case = schema_cases.CASES[number]
    body: Body = {"spec": case.spec, **case.rest}
    body |= {"apiVersion": f"{GROUP}/v1", "kind": f"Case{number}"}
    body["metadata"] = {**case.rest.get("metadata", {}), "name": "x"}
    path = f"/apis/{GROUP}/v1/namespaces/{recorded.namespace}/case{number}s"
    answer = await recorded.call("POST", path, body)
    assert _schema_outcome(answer) == schema_cases.OUTCOMES[case.name]


def _schema_outcome(answer: Answer) -> dict[str, Any]:
    if answer.code != 201:
        causes = answer.status(422, "Invalid")["details"]["causes"]
        return {"causes": sorted([cause["reason"], cause.get("field", "")] for cause in causes)}
    stored = _lasting(answer.body, {"name", "generation"})
    del stored["apiVersion"], stored["kind"]
    if not stored["metadata"]:
        del stored["metadata"]
    unknown = UNKNOWN.findall(answer.headers.get("warning", ""))
    return {"stored": stored, **({"unknown": unknown} if unknown else {})}


@pytest.mark.parametrize("name", [*crd_cases.SCHEMAS, *crd_cases.CHANGES])
async def test_definitions(api: Api, name: str) -> None:
    """A definition is accepted, or refused for the same reasons at the same places."""
    if name in crd_cases.SCHEMAS:
        body = crd_cases.crd(copy.deepcopy(crd_cases.SCHEMAS[name]))
    else:
        body = crd_cases.crd()
        crd_cases.CHANGES[name](body)
    answer = await api.create("customresourcedefinitions", body, dryRun="All")
    causes = [] if answer.code == 201 else answer.status(422, "Invalid")["details"]["causes"]
    found = sorted([cause["reason"], cause.get("field", "")] for cause in causes)
    assert found == crd_cases.OUTCOMES[name]


@pytest.mark.parametrize("start", range(0, len(cel_cases.RULES), BATCH))
async def test_rules(api: Api, world: World, start: int) -> None:
    """A rule is refused at install, holds, fails or breaks down as recorded."""
    rules = cel_cases.RULES[start : start + BATCH]
    missing = set() if world.name == "real" else cel_cases.NOT_HERE
    expected = {r: "refused" if r in missing else cel_cases.OUTCOMES[r] for r in rules}
    group = f"rules{start}.example.com"
    found = {}
    for rule in rules:
        definition = _ruled(group, [rule])
        answer = await api.create("customresourcedefinitions", definition, dryRun="All")
        found[rule] = "true" if answer.code == 201 else "refused"
    accepted = [rule for rule in rules if found[rule] != "refused"]
    await install(api, _ruled(group, accepted))
    path = f"/apis/{group}/v1/namespaces/{api.namespace}/ruleds"
    body = {"apiVersion": f"{group}/v1", "kind": "Ruled", "metadata": {"name": "x"}}
    answer = await api.call("POST", path, {**body, "spec": cel_cases.OBJECT})
    for cause in answer.body.get("details", {}).get("causes", []):
        number = re.search(r"rule (\d+)!", cause["message"])
        assert number, cause
        broke = re.search("evaluating rule|call arguments did not match", cause["message"])
        found[accepted[int(number[1])]] = "error" if broke else "false"
    assert found == expected


def _ruled(group: str, rules: list[str]) -> Body:
    """A definition with these rules on its spec, each with a message by which to know it again."""
    listed = [{"rule": rule, "message": f"rule {n}!"} for n, rule in enumerate(rules)]
    spec = {**cel_cases.SPEC, "x-kubernetes-validations": listed}
    return crd("ruleds", "Ruled", schema_cases.root(spec), group=group)


@pytest.mark.parametrize("case", builtin_cases.CASES, ids=lambda case: case.name)
async def test_built_in_kinds(api: Api, world: World, case: builtin_cases.Case) -> None:
    """An object of a built-in kind is stored, changed or refused as recorded."""
    plural = _PLURALS[case.body["kind"]]
    if plural == "events":
        api = Api(api.transport, "default")  # where the events of the table happened
    answer = await api.create(plural, case.body)
    created = answer.code == 201
    if created and case.change is not None:
        answer = await api.patch(plural, "x", case.change, case.part)
    if created:
        await api.delete(plural, "x", gracePeriodSeconds=0)
    expected = builtin_cases.OUTCOMES[case.name]
    if world.name != "real" and case.name in DIFFERENT:
        expected = {"code": 422, "causes": DIFFERENT[case.name][1]}
    if "stored" in expected:
        found = _alone(_lasting(answer.ok(), set()))
        assert found == _alone(expected["stored"])
    else:
        causes = answer.body.get("details", {}).get("causes", [])
        pairs = {(cause["reason"], cause.get("field", "")) for cause in causes}
        assert (answer.code, pairs) == (expected["code"], {(r, f) for r, f in expected["causes"]})


def _lasting(body: Body, also: set[str]) -> Body:
    metadata = {k: v for k, v in body["metadata"].items() if k not in VARYING | also}
    return {**body, "metadata": metadata}


def _alone(body: Body) -> Body:
    """Leave out what controllers, or admission on their behalf, add in one world or the other."""
    body = copy.deepcopy(body)
    if body["kind"] == "PersistentVolumeClaim":
        body["metadata"].pop("finalizers", None)  # for a controller to take away
    if body["kind"] in ("ResourceQuota", "PodDisruptionBudget"):
        body.pop("status", None)  # counted at once here, by a controller there
    if body["kind"] == "Node":
        taints = body["spec"].pop("taints", [])
        kept = [t for t in taints if t["key"] != "node.kubernetes.io/not-ready"]
        body["spec"] |= {"taints": kept} if kept else {}
    return body


_PLURALS = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "ServiceAccount": "serviceaccounts",
    "Event": "events",
    "Node": "nodes",
    "Namespace": "namespaces",
    "ResourceQuota": "resourcequotas",
    "LimitRange": "limitranges",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "StatefulSet": "statefulsets",
    "Lease": "leases",
    "EndpointSlice": "endpointslices",
    "NetworkPolicy": "networkpolicies",
    "PodDisruptionBudget": "poddisruptionbudgets",
}
