"""What a Trigger means, and that free-form settings stay as they are."""

from __future__ import annotations

import msgspec

from boilerhouse.tenancy.triggers.machine import TriggerPhase
from boilerhouse.tenancy.triggers.model import RESOURCE, TriggerSpec, TriggerStatus
from tests.tables.specs import LEAST, MOST, TRIGGER


def test_defaults() -> None:
    """A trigger begins Active and hands events over by the default driver."""
    assert msgspec.convert(LEAST[TRIGGER], TriggerSpec).driver == "default"
    assert TriggerStatus().phase is TriggerPhase.ACTIVE


def test_settings_are_kept_as_they_are() -> None:
    """Options, guards' settings and config come through untouched, whatever is in them."""
    spec = msgspec.convert(MOST[TRIGGER], TriggerSpec)
    assert msgspec.json.decode(msgspec.json.encode(spec)) == MOST[TRIGGER]


def test_settings_are_free_in_the_schema() -> None:
    """The API server keeps fields that it does not know, there and only there."""
    fields = RESOURCE.schema()["properties"]["spec"]["properties"]
    free = "x-kubernetes-preserve-unknown-fields"
    assert {name for name, field in fields.items() if field.get(free)} == {
        "driverOptions",
        "config",
    }
    assert fields["guards"]["items"]["properties"]["config"][free] is True


def test_prefix_and_static_make_one_tenant() -> None:
    """Together they must be a legal tenant id."""
    spec = {**LEAST[TRIGGER], "tenant": {"prefix": "tg-", "static": "e\u0301"}}
    (sentence,) = RESOURCE.problems(spec)
    assert sentence.startswith("spec.tenant: prefix and static together: a tenant id has")
