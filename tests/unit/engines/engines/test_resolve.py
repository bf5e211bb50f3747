"""What an engine, its class and its instance ask for together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from boilerhouse.engines.engines.resolve import InstanceFound, image_of
from boilerhouse.engines.engines.seen import Policy
from boilerhouse.engines.fields import DeadlineAction, DrainAction
from boilerhouse.engines.template.rules import Bounds
from tests.unit.engines.engines.reading import INSTANCE, klass, made, resolved, spec

OTHER: dict[str, Any] = {"profile": {"instance": "none", "drain": {"type": "none"}}}


def reasons(found: Any) -> list[str]:
    return [gate.reason for gate in found.faults]


def hash_of(*args: Any) -> str:
    return made(*args).wanted.hash


def test_policies_have_defaults() -> None:
    assert resolved().policy == Policy(drain=True, drain_interval=timedelta(seconds=5))


def test_an_engines_policy_goes_before_its_classs() -> None:
    """Each field by itself."""
    by = klass(
        rollout="recreate",
        drainCheckInterval="9s",
        drainTimeout="1m",
        drainTimeoutAction="proceed",
        progressDeadline="2m",
        progressDeadlineAction="abort",
    )
    assert resolved(spec(), by).policy == Policy(
        drain=False,
        drain_interval=timedelta(seconds=9),
        drain_timeout=timedelta(minutes=1),
        drain_action=DrainAction.PROCEED,
        deadline=timedelta(minutes=2),
        deadline_action=DeadlineAction.ABORT,
    )
    own = spec(rollout="graceful", drainCheckInterval="1s")
    assert resolved(own, by).policy.drain
    assert resolved(own, by).policy.drain_interval == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("of", "by", "drain"),
    [
        (spec(drainCheckEnabled=False), None, False),
        (spec(drainCheckEnabled=True), klass(drainCheckEnabled=False), True),
        (spec(), klass(drainCheckEnabled=False), False),
        (spec(), klass(**OTHER), False),
        (spec(engineClassRef="c"), None, True),
    ],
)
def test_whether_old_work_is_waited_for(of: Any, by: Any, drain: bool) -> None:
    assert resolved(of, by).policy.drain is drain


def test_the_instance_must_have_an_id_and_an_endpoint() -> None:
    """It need not be Ready: an engine needs these two."""
    assert resolved().instance_fault is None
    for instance, words in (
        (None, "is not there"),
        (InstanceFound("i"), "no id yet"),
        (InstanceFound("i", id="x"), "no metadata endpoint yet"),
    ):
        found = resolved(instance=instance)
        assert words in (found.instance_fault or "")
        assert found.made is None and found.instance_needed


def test_an_override_replaces_the_endpoint() -> None:
    found = resolved(spec(metadataEndpointOverride="x:1"), instance=InstanceFound("i", id="x"))
    assert found.made is not None and found.made.endpoint == "x:1"


def test_an_engine_that_needs_an_instance_must_name_one() -> None:
    found = resolved(spec(instanceRef=None, engineClassRef="c"), klass())
    assert "spec.instanceRef is not set" in (found.instance_fault or "")


def test_a_profile_without_an_instance_needs_none() -> None:
    of = spec(instanceRef=None, engineClassRef="c")
    found = resolved(of, klass(**OTHER), instance=None)
    assert found.instance_fault is None and not found.instance_needed
    assert found.made is not None and found.made.instance_id == found.made.endpoint == ""


def test_faults_come_in_the_published_order() -> None:
    """All that can be told at once."""
    bad: dict[str, Any] = {"spec": {"hostNetwork": True}}
    found = resolved(spec(template=bad, engineClassRef="c"), None, name="e" * 60)
    assert reasons(found) == [
        "FireboltEngineClassMissing",
        "NameTooLong",
        "TemplateRejected",
    ]
    found = resolved(spec(template=bad), klass(template=bad), name="e" * 60)
    assert reasons(found) == ["FireboltEngineClassUnready", "NameTooLong", "TemplateRejected"]
    assert "spec.template.spec.hostNetwork: is set by the operator" in found.faults[0].message
    assert found.made is None


def test_a_class_that_says_that_it_is_unready_is_believed() -> None:
    found = resolved(spec(), klass("it sets hostNetwork"))
    assert reasons(found) == ["FireboltEngineClassUnready"]
    assert "it sets hostNetwork" in found.faults[0].message


def test_names_that_clash_are_told() -> None:
    side = {"spec": {"containers": [{"name": "side"}]}}
    assert reasons(resolved(spec(template=side), klass(template=side))) == ["TemplateRejected"]


def _resources(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "engine", "resources": {"limits": {"cpu": cpu}}}]}}


def test_bounds_hold_for_the_effective_resources() -> None:
    """The engine's own, whole; else the class's, which is then named."""
    bounds = Bounds(cpu="2")
    found = resolved(spec(), klass(template=_resources("3")), bounds=bounds)
    assert reasons(found) == ["ResourceBoundsExceeded"]
    assert "(from the class c)" in found.faults[0].message
    fits = resolved(spec(template=_resources("2")), klass(template=_resources("3")), bounds=bounds)
    assert fits.faults == ()
    assert reasons(resolved(spec(template=_resources("3")), bounds=bounds)) == [
        "ResourceBoundsExceeded"
    ]
    assert resolved(spec(), klass(), bounds=bounds).faults == ()
    assert resolved(spec(), bounds=bounds).faults == ()


def test_configuration_is_the_classs_under_the_engines() -> None:
    """Without what the operator owns, which is listed."""
    of = spec(customEngineConfig={"a": {"x": 2}, "instance": {"id": "mine"}})
    found = made(of, klass(customEngineConfig={"a": {"x": 1, "y": 1}, "schema_version": "9"}))
    assert found.config == {"a": {"x": 2, "y": 1}}
    assert found.wanted.ignored == ("schema_version", "instance.id")
    assert made(spec(customEngineConfig={"a": 1})).config == {"a": 1}


def test_a_hash_is_absent_where_there_is_nothing() -> None:
    """Configuration that is all the operator's is nothing; so is no class."""
    found = made(spec(customEngineConfig={"instance": {"id": "mine"}}))
    assert found.config_hash == found.class_hash == ""


CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"replicas": 2}, {}, "replicas"),
    ({"template": _resources("1")}, {}, "template.spec.containers[engine].resources"),
    ({"template": {"spec": {"volumes": [{"name": "v"}]}}}, {}, "template.spec.volumes"),
    ({"template": {"spec": {"imagePullSecrets": [{"name": "s"}]}}}, {}, "imagePullSecrets"),
    ({"customEngineConfig": {"a": 1}}, {}, "config"),
    ({"storage": {"emptyDir": {"sizeLimit": "1Gi"}}}, {}, "storage"),
    ({"metadataEndpointOverride": "x:1"}, {}, "instance.endpoint"),
    ({}, {"template": {"metadata": {"labels": {"a": "b"}}}}, "class"),
    ({}, {"customEngineConfig": {"a": 1}}, "config"),
    ({}, {"profile": {"container": "other"}}, "profile"),
]


@pytest.mark.parametrize(("own", "inherited", "named"), CHANGES)
def test_every_input_makes_another_generation(
    own: dict[str, Any], inherited: dict[str, Any], named: str
) -> None:
    """And it is named."""
    before, after = made(spec(), klass()), made(spec(**own), klass(**inherited))
    assert before.wanted.hash != after.wanted.hash
    changed = set(before.wanted.inputs) ^ set(after.wanted.inputs)
    assert any(named in name for name, _ in changed), changed


@pytest.mark.parametrize(
    "fields",
    [
        {"rollout": "recreate"},
        {"drainCheckEnabled": False},
        {"drainCheckInterval": "9s"},
        {"drainTimeout": "1m", "drainTimeoutAction": "proceed"},
        {"progressDeadline": "1m", "progressDeadlineAction": "abort"},
        {"profile": {"drain": {"sum": ["x"]}}},
    ],
)
def test_policies_make_none(fields: dict[str, Any]) -> None:
    assert hash_of(spec(), klass()) == hash_of(spec(), klass(**fields))


def test_a_class_edit_that_changes_nothing_in_the_result_makes_one_too() -> None:
    """As the page says: any change of the class's template."""
    image = {"spec": {"containers": [{"name": "engine", "image": "own:1"}]}}
    other = {"spec": {"containers": [{"name": "engine", "image": "class:1"}]}}
    before, after = (
        hash_of(spec(template=image), klass()),
        hash_of(spec(template=image), klass(template=other)),
    )
    assert before != after


def test_a_restart_makes_another_generation_of_the_same_spec() -> None:
    one, other = resolved(restart="1").made, resolved(restart="2").made
    assert one is not None and other is not None
    assert one.wanted.hash != other.wanted.hash


def test_another_instance_id_makes_one() -> None:
    other = resolved(instance=InstanceFound("i", "other", INSTANCE.endpoint)).made
    assert other is not None and other.wanted.hash != hash_of()


def test_the_image_is_the_templates_or_the_profiles() -> None:
    template = {"spec": {"containers": [{"name": "engine", "image": "own:1"}]}}
    assert image_of(made(spec(template=template))) == "own:1"
    assert image_of(made()) == made().profile.image
