"""Good and bad specs of every kind: Python refuses what the CRD refuses, at the same field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cel
import msgspec
import pytest

from boilerhouse.core.names import is_tenant_id
from boilerhouse.operator.catalogue import RESOURCES
from tests.tables.specs import (
    BAD_TENANTS,
    BAD_TENANTS_BEYOND_CEL,
    CASES,
    CLAIM,
    DEFAULTS,
    GOOD_TENANTS,
    LEAST,
    MOST,
    Case,
    changed,
)

KINDS = {resource.kind: resource for resource in RESOURCES}


def decodes(case: Case) -> bool:
    """Whether the schema lets it through, so that rules are asked at all."""
    try:
        msgspec.convert(case.spec, KINDS[case.kind].spec)
    except msgspec.ValidationError:
        return False
    return True


EACH = pytest.mark.parametrize("case", CASES, ids=str)


@EACH
def test_problems_blame_the_right_fields(case: Case) -> None:
    """A good spec has no problem; a bad one is blamed at the very fields, all of them."""
    found = KINDS[case.kind].problems(case.spec)
    assert {sentence.split(": ")[0] for sentence in found} == case.blamed, found


@pytest.mark.parametrize("case", [case for case in CASES if not case.blamed], ids=str)
def test_good_specs_survive_the_wire(case: Case) -> None:
    """A good spec decodes, and means the same after the way to JSON and back."""
    resource = KINDS[case.kind]
    value = msgspec.convert(case.spec, resource.spec)
    again = msgspec.json.decode(msgspec.json.encode(value), type=resource.spec)
    assert again == value


@pytest.mark.parametrize("case", [case for case in CASES if decodes(case)], ids=str)
def test_cel_and_python_agree(case: Case) -> None:
    """Each rule that is stated in CEL and in Python gives one verdict in both."""
    resource = KINDS[case.kind]
    schema = resource.schema()["properties"]["spec"]
    by_cel = set(cel_complaints(schema, case.spec, "spec"))
    by_python = {
        sentence
        for sentence in resource.problems(case.spec)
        if not sentence.endswith("duplicate item")  # x-kubernetes-list-type says this one
    }
    assert by_cel == by_python


def cel_complaints(schema: dict[str, Any], value: object, path: str) -> Iterator[str]:
    """Evaluate every rule below a node, except those that compare with a former state."""
    for rule in schema.get("x-kubernetes-validations", []):
        if "oldSelf" not in rule["rule"] and not cel.evaluate(rule["rule"], {"self": value}):
            yield f"{path}{rule.get('fieldPath', '')}: {rule['message']}"
    if isinstance(value, dict):
        for name, child in value.items():
            if (below := schema.get("properties", {}).get(name)) is not None:
                yield from cel_complaints(below, child, f"{path}.{name}")
    if isinstance(value, list):
        for index, child in enumerate(value):
            yield from cel_complaints(schema["items"], child, f"{path}[{index}]")


@pytest.mark.slow
def test_every_rule_is_broken_by_some_case() -> None:
    """No rule is there that no case ever breaks."""
    stated, broken = set(), set()
    for case in CASES:
        resource = KINDS[case.kind]
        schema = resource.schema()["properties"]["spec"]
        stated |= set(_messages(schema))
        complaints = cel_complaints(schema, case.spec, "spec") if decodes(case) else iter(())
        broken |= {complaint.split(": ", 1)[1] for complaint in complaints}
    assert stated - broken == {
        "the spec of a claim cannot be changed",
        "must be at least 0.01",  # Python refuses it while decoding; the servers' contract asks it
    }


def _messages(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for rule in schema.get("x-kubernetes-validations", []):
            yield rule["message"]
        for child in schema.values():
            yield from _messages(child)


def test_claim_spec_stays() -> None:
    """The rule on a claim's spec refuses any change and lets everything else be written."""
    rules = KINDS[CLAIM].schema()["properties"]["spec"]["x-kubernetes-validations"]
    (rule,) = (one["rule"] for one in rules if "oldSelf" in one["rule"])
    spec = LEAST[CLAIM]
    assert cel.evaluate(rule, {"self": dict(spec), "oldSelf": spec}) is True
    for change in ({"tenantId": "bob"}, {"workloadRef": "other"}, {"resume": False}):
        assert cel.evaluate(rule, {"self": {**spec, **change}, "oldSelf": spec}) is False


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({}, {}, True),
        ({}, {"source": "pool"}, True),
        ({"source": "pool"}, {"source": "pool", "detail": "x"}, True),
        ({"source": "pool"}, {"source": "cold"}, False),
        ({"source": "pool"}, {}, False),
    ],
)
def test_source_is_written_once(old: object, new: object, allowed: bool) -> None:
    """A claim's source can be set, and then neither changed nor removed."""
    (rule,) = KINDS[CLAIM].schema()["properties"]["status"]["x-kubernetes-validations"]
    assert cel.evaluate(rule["rule"], {"self": new, "oldSelf": old}) is allowed


def test_many_mistakes_are_all_listed() -> None:
    """One look at the problems is enough to repair a spec."""
    resource = KINDS["BoilerhouseWorkload"]
    spec = changed(
        MOST[resource.kind],
        {
            "version": "",
            "image": {},
            "resources.vcpus": 0,
            "filesystem.overlayDirs": ["/a", "/a/b", "c"],
            "idle.action": "nap",
            "health.exec": {"command": ["true"]},
        },
    )
    assert {sentence.split(": ")[0] for sentence in resource.problems(spec)} == {
        "spec.version",
        "spec.image",
        "spec.resources.vcpus",
        "spec.filesystem.overlayDirs[2]",
        "spec.idle.action",
        "spec.health",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_python_defaults_are_the_schemas(kind: str) -> None:
    """A spec with the API server's defaults written in means the same as without them."""
    resource = KINDS[kind]
    written = {**LEAST[kind], **DEFAULTS[kind]}
    assert msgspec.convert(written, resource.spec) == msgspec.convert(LEAST[kind], resource.spec)
    schema = resource.schema()["properties"]["spec"]
    assert _defaulted(schema, LEAST[kind]) == written


def _defaulted(schema: dict[str, Any], value: Any) -> Any:
    """Do to a value what an API server does with the defaults of a schema."""
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties", {})
    born = {name: field["default"] for name, field in fields.items() if "default" in field}
    filled = {**born, **value}
    return {name: _defaulted(fields.get(name, {}), child) for name, child in filled.items()}


def test_tenants_beyond_cel_are_refused_by_python() -> None:
    """What no regular expression can refuse, the operator does, in the documented words."""
    for tenant in BAD_TENANTS_BEYOND_CEL:
        (sentence,) = KINDS[CLAIM].problems({"tenantId": tenant, "workloadRef": "a"})
        assert sentence.startswith("spec.tenantId: a tenant id has 1 to 128 printable characters")


def test_tenant_tables_are_those_of_the_rule() -> None:
    """The one function behind the rule sorts the tables alike."""
    assert all(is_tenant_id(tenant) for tenant in GOOD_TENANTS)
    assert not any(is_tenant_id(tenant) for tenant in BAD_TENANTS + BAD_TENANTS_BEYOND_CEL)
