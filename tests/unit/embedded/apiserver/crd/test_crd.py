"""From a definition to a kind, and who may have which names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from boilerhouse.core.clock import FakeClock
from boilerhouse.embedded.apiserver.crd.kind import (
    CLEANUP,
    HOOKS,
    default_crd,
    established,
    kind_from_crd,
    settle_names,
)
from boilerhouse.embedded.apiserver.crd.rules import crd_causes
from tests.unit.embedded.apiserver.crd.crd_cases import crd

CLOCK = FakeClock(datetime(2024, 5, 1, tzinfo=UTC))


def named(plural: str, **names: Any) -> dict[str, Any]:
    body = crd()
    body["metadata"]["name"] = f"{plural}.case.test"
    body["spec"]["names"] = {"plural": plural, "kind": plural.title(), **names}
    default_crd(body)
    return body


def settled(plural: str, *others: dict[str, Any], **names: Any) -> dict[str, Any]:
    body = named(plural, **names)
    settle_names(body, others, CLOCK)
    return body


def conditions(body: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in body["status"]["conditions"]}


def test_a_kind_has_what_the_definition_says() -> None:
    """Names, scope, subresources, columns and selectable fields all reach the kind."""
    body = crd()
    body["spec"]["names"] |= {"shortNames": ["th"], "categories": ["all"]}
    body["spec"]["versions"][0] |= {
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
        "selectableFields": [{"jsonPath": ".spec.n"}],
    }
    kind = kind_from_crd(body)
    assert (kind.api_version, kind.resource) == ("case.test/v1", "things.case.test")
    assert (kind.short_names, kind.categories, kind.namespaced) == (("th",), ("all",), True)
    assert kind.status
    assert kind.custom
    assert kind.scale is not None
    assert kind.scale.spec_replicas == ".spec.n"
    assert [column.path for column in kind.columns] == [".spec.a"]
    assert kind.selectable["spec.n"]({"spec": {"n": 3}}) == "3"
    assert kind.selectable["spec.n"]({}) == ""


def test_what_a_scale_shows_must_be_a_count() -> None:
    """A negative number of replicas is refused even when the schema would allow it."""
    body = crd()
    body["spec"]["versions"][0]["subresources"] = {
        "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    }
    check = kind_from_crd(body).hooks.validate
    assert [cause.field for cause in check({"spec": {"n": -1}}, None)] == [".spec.n"]
    assert check({"spec": {"n": 3}}, None) == []


def test_without_columns_there_is_an_age() -> None:
    """A definition that names no columns shows name and age, as a real server does."""
    assert [column.name for column in kind_from_crd(crd()).columns] == ["Age"]


def test_free_names_are_accepted_and_the_kind_established() -> None:
    """With nobody in the way a definition is served at once."""
    body = settled("things")
    assert conditions(body) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert body["status"]["acceptedNames"] == {
        "plural": "things", "singular": "things", "kind": "Things", "listKind": "ThingsList",
    }  # fmt: skip
    assert body["status"]["storedVersions"] == ["v1"]
    assert established(body)


def test_a_taken_name_leaves_a_definition_unserved() -> None:
    """A short name that another definition of the group has is a conflict, told in conditions."""
    first = settled("things", shortNames=["t"])
    second = settled("thongs", first, shortNames=["t"])
    assert conditions(second) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("False", "NotAccepted"),
    }
    assert not established(second)


def test_a_taken_kind_is_a_conflict_too() -> None:
    """Two definitions of one group cannot have the same kind."""
    second = settled("thongs", settled("things", kind="Thing"), kind="Thing")
    assert conditions(second)["NamesAccepted"] == ("False", "ListKindConflict")


def test_an_established_kind_stays_served_when_it_asks_for_a_taken_name() -> None:
    """A later conflict is told, and what is served goes on being served under its old names."""
    other = settled("things", shortNames=["t"])
    body = settled("thongs")
    body["spec"]["names"]["shortNames"] = ["t"]
    settle_names(body, [other], CLOCK)
    assert conditions(body)["NamesAccepted"] == ("False", "ShortNamesConflict")
    assert established(body)
    assert "shortNames" not in body["status"]["acceptedNames"]


def test_settling_again_does_not_touch_the_times() -> None:
    """A condition's time is when it last changed."""
    body = settled("things")
    before = body["status"]["conditions"]
    settle_names(body, (), FakeClock(datetime(2030, 1, 1, tzinfo=UTC)))
    assert body["status"]["conditions"] == before


def test_scope_and_names_do_not_change() -> None:
    """What objects are stored under is fixed; other names may change."""
    old, new = named("things"), named("things", shortNames=["x"])
    assert crd_causes(new, old) == []
    new["spec"]["scope"] = "Cluster"
    new["spec"]["names"]["kind"] = "Other"
    assert sorted(cause.field for cause in crd_causes(new, old)) == [
        "spec.names.kind",
        "spec.scope",
    ]


def test_what_is_not_supported_is_refused_by_name() -> None:
    """Conversion by webhook and a second served version are refused, and the cause says so."""
    body = named("things")
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {}}
    body["spec"]["versions"].append({**body["spec"]["versions"][0], "name": "v2", "storage": False})
    messages = {cause.field: cause.message for cause in crd_causes(body)}
    assert "webhook is not supported here" in messages["spec.conversion.strategy"]
    assert "conversion is not supported here" in messages["spec.versions"]


def test_a_version_that_was_stored_must_stay() -> None:
    """A version in which objects may be stored cannot be removed."""
    body = named("things")
    body["status"]["storedVersions"] = ["v0", "v1"]
    assert [cause.field for cause in crd_causes(body)] == ["status.storedVersions[0]"]


def test_a_new_definition_holds_its_clean_up() -> None:
    """The finalizer that waits for the objects is there from the start, and only once."""
    body = named("things")
    HOOKS.on_create(body)
    HOOKS.on_create(body)
    assert body["metadata"]["finalizers"] == [CLEANUP]


def test_a_new_storage_version_is_remembered() -> None:
    """Changing the storage version adds to the versions objects may be stored in."""
    old, new = named("things"), named("things")
    new["spec"]["versions"][0]["name"] = "v2"
    HOOKS.on_update(new, old)
    assert new["status"]["storedVersions"] == ["v1", "v2"]
