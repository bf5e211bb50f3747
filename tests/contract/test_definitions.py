"""Custom resources: definitions, pruning, defaults, schema and rules."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.contract.conftest import install
from tests.contract.driver import Api
from tests.contract.objects import crd, gadget, widget

SPEC: dict[str, Any] = {"type": "object", "properties": {"spec": {"type": "object"}}}


def _group(api: Api) -> str:
    return f"{api.namespace}.example.com"


async def test_a_definition_is_established(api: Api) -> None:
    """Once established, its conditions say so and its names are filled in."""
    definition = (await api.get("customresourcedefinitions", "widgets.contract.example.com")).ok()
    conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
    assert conditions["NamesAccepted"] == "True"
    assert conditions["Established"] == "True"
    assert definition["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert definition["spec"]["names"]["listKind"] == "WidgetList"
    assert definition["status"]["storedVersions"] == ["v1"]
    assert definition["spec"]["conversion"] == {"strategy": "None"}


async def test_discovery_knows_it(api: Api) -> None:
    """The group's document lists the resource and its subresources."""
    listed = (await api.call("GET", "/apis/contract.example.com/v1")).ok()
    resources = {resource["name"]: resource for resource in listed["resources"]}
    assert set(resources) >= {"widgets", "widgets/status", "widgets/scale", "gadgets"}
    assert resources["widgets"]["kind"] == "Widget"
    assert resources["widgets"]["shortNames"] == ["wd"]
    assert resources["widgets"]["categories"] == ["all"]
    assert resources["widgets"]["namespaced"] is True
    assert resources["gadgets"]["namespaced"] is False
    assert resources["widgets/scale"]["kind"] == "Scale"


async def test_a_definition_goes_with_its_objects(api: Api) -> None:
    """Deleting a definition deletes its objects; afterwards the path is unknown."""
    group = _group(api)
    definition = crd("things", "Thing", SPEC, group=group)
    await install(api, definition)
    base = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}}
    (await api.call("POST", base, thing)).ok()
    (await api.delete("customresourcedefinitions", f"things.{group}")).ok()
    await api.gone("customresourcedefinitions", f"things.{group}")

    async def unknown() -> bool:
        return (await api.call("GET", base)).code == 404

    await api.until(unknown)
    await install(api, definition)
    assert (await api.call("GET", base)).ok()["items"] == []


async def test_a_changed_schema_counts_at_once(api: Api) -> None:
    """An update of the definition changes what is accepted, and old objects stay readable."""
    group = _group(api)
    await install(api, crd("things", "Thing", SPEC, group=group))
    base = f"/apis/{group}/v1/namespaces/{api.namespace}/things"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {}}
    (await api.call("POST", base, thing)).ok()
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["must"],
                "properties": {
                    "must": {"type": "string"},
                    "may": {"type": "string", "default": "x"},
                },
            }
        },
    }
    changed = crd("things", "Thing", schema, group=group)
    patch = {"spec": {"versions": changed["spec"]["versions"]}}
    (await api.patch("customresourcedefinitions", f"things.{group}", patch)).ok()

    async def strict() -> bool:
        thing["metadata"] = {"generateName": "b"}
        return (await api.call("POST", base, thing)).code == 422

    await api.until(strict)
    assert (await api.call("GET", f"{base}/a")).ok()["spec"] == {"may": "x"}


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["metadata", "name"], "wrong.example.com", "metadata.name"),
        (["spec", "scope"], "Galaxy", "spec.scope"),
        (["spec", "versions", 0, "storage"], False, "spec.versions"),
        (["spec", "versions", 0, "schema"], None, "openAPIV3Schema"),
        (
            ["spec", "versions", 0, "schema", "openAPIV3Schema"],
            {"properties": {"spec": {"type": "object"}}},
            "openAPIV3Schema.type",
        ),
        (
            ["spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "spec"],
            {"properties": {"a": {"type": "string"}}},
            "openAPIV3Schema.properties[spec].type",
        ),
        (["spec", "names", "kind"], "", "spec.names.kind"),
        (["spec", "group"], "nodots", "spec.group"),
    ],
)
async def test_bad_definitions(api: Api, path: list[Any], value: Any, field: str) -> None:
    """A definition that is not structural, or contradicts itself, is 422 with the field."""
    definition = copy.deepcopy(crd("things", "Thing", SPEC, group=_group(api)))
    at: Any = definition
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    if path == ["spec", "group"]:
        definition["metadata"]["name"] = "things.nodots"
    fields = {f for f, _ in (await api.create("customresourcedefinitions", definition)).causes()}
    assert any(found.endswith(field) for found in fields), fields


@pytest.mark.parametrize("rule", ["self.nothing == 1", "self.a ==", "noSuchFunction(self.a)"])
async def test_bad_rules_are_refused_at_install(api: Api, rule: str) -> None:
    """A rule that does not compile is refused when it is installed, not when it is needed."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": rule}],
            }
        },
    }
    definition = crd("things", "Thing", schema, group=_group(api))
    fields = {f for f, _ in (await api.create("customresourcedefinitions", definition)).causes()}
    (field,) = fields
    assert field.endswith("openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule")


async def test_unknown_fields_are_pruned(api: Api) -> None:
    """What the schema does not know is dropped; below preserve-unknown-fields it stays."""
    body = widget("a", nonsense=1, free={"any": {"thing": [1]}}, parts=[{"name": "x", "y": 1}])
    body["extra"] = 1
    created = (await api.create("widgets", body)).ok()
    assert "extra" not in created
    assert "nonsense" not in created["spec"]
    assert created["spec"]["free"] == {"any": {"thing": [1]}}
    assert created["spec"]["parts"] == [{"name": "x", "weight": 1}]


async def test_defaults(api: Api) -> None:
    """Absent fields with a default get it, inside of lists too; given ones keep theirs."""
    body = widget("a", size=5, parts=[{"name": "x"}, {"name": "y", "weight": 7}])
    spec = (await api.create("widgets", body)).ok()["spec"]
    assert spec == {
        "size": 5,
        "colour": "red",
        "parts": [{"name": "x", "weight": 1}, {"name": "y", "weight": 7}],
    }
    bare = {"apiVersion": "contract.example.com/v1", "kind": "Widget", "metadata": {"name": "b"}}
    assert (await api.create("widgets", bare)).ok()["spec"] == {"size": 3, "colour": "red"}
    removed = (await api.patch("widgets", "a", {"spec": {"size": None}})).ok()
    assert removed["spec"]["size"] == 3


async def test_null_and_defaults(api: Api) -> None:
    """null where null is not allowed becomes the default; where it is allowed it stays."""
    spec = (await api.create("widgets", widget("a", size=None, note=None))).ok()["spec"]
    assert spec["size"] == 3
    assert spec["note"] is None


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"size": 0}, {("spec.size", "FieldValueInvalid")}),
        ({"size": 11}, {("spec.size", "FieldValueInvalid")}),
        ({"size": "3"}, {("spec.size", "FieldValueTypeInvalid")}),
        ({"size": 2.5}, {("spec.size", "FieldValueTypeInvalid")}),
        ({"colour": "blue"}, {("spec.colour", "FieldValueNotSupported")}),
        ({"code": "ABC"}, {("spec.code", "FieldValueInvalid")}),
        ({"code": "abcdef"}, {("spec.code", "FieldValueTooLong")}),
        ({"at": "yesterday"}, {("spec.at", "FieldValueTypeInvalid")}),
        ({"port": 1.5}, {("spec.port", "FieldValueTypeInvalid")}),
        ({"tags": {"a": 1}}, {("spec.tags.a", "FieldValueTypeInvalid")}),
        ({"parts": [{}]}, {("spec.parts[0].name", "FieldValueRequired")}),
        (
            {"parts": [{"name": str(n)} for n in range(4)]},
            {("spec.parts", "FieldValueTooMany")},
        ),
        (
            {"parts": [{"name": "x"}, {"name": "x"}]},
            {("spec.parts[1]", "FieldValueDuplicate")},
        ),
        ({"names": ["a", "b", "a"]}, {("spec.names[2]", "FieldValueDuplicate")}),
        ({"low": 2, "high": 1}, {("spec", "FieldValueInvalid")}),
    ],
)
async def test_schema_violations(api: Api, spec: dict[str, Any], causes: set[Any]) -> None:
    """Each kind of violation has its field and its reason."""
    assert (await api.create("widgets", widget("a", **spec))).causes() == causes


async def test_all_violations_are_listed(api: Api) -> None:
    """One answer names everything that is wrong."""
    answer = await api.create("widgets", widget("a", size=0, colour="blue", names=["a", "a"]))
    assert answer.causes() == {
        ("spec.size", "FieldValueInvalid"),
        ("spec.colour", "FieldValueNotSupported"),
        ("spec.names[1]", "FieldValueDuplicate"),
    }
    details = answer.body["details"]
    assert (details["name"], details["group"], details["kind"]) == (
        "a",
        "contract.example.com",
        "Widget",
    )
    assert answer.body["message"].startswith('Widget.contract.example.com "a" is invalid: [')


@pytest.mark.parametrize("spec", [{"port": 80}, {"port": "http"}, {"at": "2026-01-02T03:04:05Z"}])
async def test_what_is_valid(api: Api, spec: dict[str, Any]) -> None:
    """int-or-string takes both, a date-time is RFC 3339."""
    created = (await api.create("widgets", widget("a", **spec))).ok()["spec"]
    assert created.items() >= spec.items()


async def test_rules_with_messages(api: Api) -> None:
    """A failed rule is a cause with the rule's own message, at the place of the rule."""
    answer = await api.create("widgets", widget("a", low=2, high=1))
    causes = answer.status(422, "Invalid")["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec"]
    assert "low must not exceed high" in causes[0]["message"]


async def test_transition_rules(api: Api) -> None:
    """A rule on oldSelf holds between two states: not at create, not when the field is new."""
    (await api.create("widgets", widget("a"))).ok()
    (await api.patch("widgets", "a", {"spec": {"frozen": "x"}})).ok()
    (await api.patch("widgets", "a", {"spec": {"frozen": "x", "size": 4}})).ok()
    answer = await api.patch("widgets", "a", {"spec": {"frozen": "y"}})
    assert answer.causes() == {("spec.frozen", "FieldValueInvalid")}
    assert "frozen" in answer.body["message"]
    (await api.patch("widgets", "a", {"spec": {"frozen": None}})).ok()


async def test_status_is_validated_too(api: Api) -> None:
    """Schema and pruning hold for the status subresource."""
    (await api.create("widgets", widget("a"))).ok()
    answer = await api.patch("widgets", "a", {"status": {"phase": 1}}, "status")
    assert answer.causes() == {("status.phase", "FieldValueTypeInvalid")}
    stored = (await api.patch("widgets", "a", {"status": {"replicas": 1, "u": 1}}, "status")).ok()
    assert stored["status"] == {"replicas": 1}


async def test_a_free_schema_keeps_everything(api: Api) -> None:
    """preserve-unknown-fields at the root stores what it is given."""
    name = f"g-{api.namespace}"
    created = (await api.create("gadgets", gadget(name, any={"thing": [1, None, "x"]}))).ok()
    assert created["any"] == {"thing": [1, None, "x"]}


async def test_a_body_without_its_kind(api: Api) -> None:
    """Custom resources must say what they are."""
    (await api.create("widgets", {"metadata": {"name": "a"}})).status(400, "BadRequest")
    wrong = widget("a") | {"kind": "Gadget"}
    assert (await api.create("widgets", wrong)).causes() == {("kind", "FieldValueInvalid")}
    wrong = widget("a") | {"apiVersion": "contract.example.com/v2"}
    (await api.create("widgets", wrong)).status(400, "BadRequest")
