"""What the recorded cases do not reach: definitions, refusals, metadata, the status subresource."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.embedded.apiserver.schemas.schema import Builder, Schema, SchemaError
from boilerhouse.platform.kube.status import BadRequest, Cause
from tests.unit.embedded.apiserver.schemas.schema_cases import array, fields, mapping, root, text

S = text()
I = {"type": "integer"}  # noqa: E741 - as short as S
DEFINITIONS: dict[str, Any] = {
    "Pod": fields(spec={"$ref": "#/components/schemas/Spec"}),
    "Spec": fields(
        ports=array({"allOf": [{"$ref": "#/components/schemas/Port"}], "default": {}}),
        size={"$ref": "#/components/schemas/Quantity"},
        grace={"type": "integer", "format": "int32"},
        hostNetwork={
            "type": "boolean",
            "x-boilerhouse-refused": "Pods have a network of their own",
        },
        tree={"$ref": "#/components/schemas/Tree"},
    ),
    "Port": fields(port=I, protocol=text(default="TCP")),
    "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "Tree": fields(name=S, children=array({"$ref": "#/components/schemas/Tree"})),
}


def pod() -> Schema:
    return Schema.compile({"$ref": "#/components/schemas/Pod"}, DEFINITIONS)


def test_references_are_followed() -> None:
    """A tree that refers to definitions prunes, defaults and validates through them."""
    body: dict[str, Any] = {"spec": {"ports": [{"port": "x", "u": 1}], "size": True}}
    schema = pod()
    assert schema.prune(body) == ["spec.ports[0].u"]
    schema.default(body)
    assert body == {"spec": {"ports": [{"port": "x", "protocol": "TCP"}], "size": True}}
    assert [(c.reason, c.field) for c in schema.validate(body)] == [
        ("FieldValueTypeInvalid", "spec.ports[0].port"),
        ("FieldValueTypeInvalid", "spec.size"),
    ]


def test_a_tree_may_contain_itself() -> None:
    """A definition that refers to itself is checked as deep as the object goes."""
    body: dict[str, Any] = {"spec": {"tree": {"children": [{"children": [{"u": 1, "name": 2}]}]}}}
    assert pod().prune(body) == ["spec.tree.children[0].children[0].u"]
    assert [c.field for c in pod().validate(body)] == ["spec.tree.children[0].children[0].name"]


def test_int32_is_a_range_for_kinds_with_definitions() -> None:
    """Built-in kinds are Go structs on a real server, where an int32 cannot hold more."""
    assert [c.field for c in pod().validate({"spec": {"grace": 2**31}})] == ["spec.grace"]


def test_kinds_may_share_compiled_definitions() -> None:
    """Two kinds made by one builder share the nodes of what both refer to."""
    builder = Builder(DEFINITIONS)
    one = Schema.compile({"$ref": "#/components/schemas/Pod"}, builder=builder)
    two = Schema.compile(fields(spec={"$ref": "#/components/schemas/Spec"}), builder=builder)
    assert one.root.props["spec"] is two.root.props["spec"]


def test_an_unknown_reference_is_refused() -> None:
    """A reference that leads nowhere is a mistake in our data, found when it is compiled."""
    with pytest.raises(SchemaError, match="Nothing"):
        Schema.compile({"$ref": "#/components/schemas/Nothing"}, DEFINITIONS)


def test_a_field_that_is_not_honoured_is_refused_when_it_says_something() -> None:
    """`hostNetwork: true` is refused with the reason; `false` asks for nothing."""
    assert pod().refused({"spec": {"hostNetwork": True}}) == [
        Cause(
            "FieldValueForbidden",
            "Forbidden: not supported here: Pods have a network of their own",
            "spec.hostNetwork",
        )
    ]
    assert pod().refused({"spec": {"hostNetwork": False}}) == []


def test_metadata_of_wrong_types_cannot_be_read() -> None:
    """A label that is a number makes the whole request unreadable, as for a decoding server."""
    with pytest.raises(BadRequest, match="labels"):
        Schema.compile(root(fields())).prune({"metadata": {"labels": {"a": 1}}})


def test_metadata_is_written_without_what_is_empty() -> None:
    """Nulls, empty strings and unknown fields of metadata are gone, a grace of zero is not."""
    body: dict[str, Any] = {
        "metadata": {
            "name": "x",
            "labels": {},
            "creationTimestamp": None,
            "generateName": "",
            "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{"name": "o", "u": 1}],
        }
    }
    assert Schema.compile(root(fields())).prune(body) == ["metadata.ownerReferences[0].u"]
    assert body == {
        "metadata": {
            "name": "x",
            "deletionGracePeriodSeconds": 0,
            "ownerReferences": [{"name": "o"}],
        }
    }


def test_a_status_write_is_judged_by_its_status_alone() -> None:
    """What is wrong in spec does not stop a controller from writing status."""
    schema = Schema.compile(
        {"type": "object", "properties": {"spec": fields(n=I), "status": fields(n=I)}}
    )
    body = {"spec": {"n": "x"}, "status": {"n": "y"}}
    assert [c.field for c in schema.validate(body, body | {"status": {}}, status=True)] == [
        "status.n"
    ]


def test_a_default_of_status_comes_back() -> None:
    """An object whose status was dropped at birth still has the status its schema defaults."""
    schema = Schema.compile(
        {
            "type": "object",
            "properties": {"status": {**fields(phase=S), "default": {"phase": "Pending"}}},
        }
    )
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    schema.default(first)
    first["status"]["phase"] = "Active"
    schema.default(second)
    assert second == {"status": {"phase": "Pending"}}


def test_messages_name_the_field_and_the_rule() -> None:
    """A message says where, what was found and what was expected."""
    schema = Schema.compile(root(fields(a=text(pattern="^x"), n={**I, "maximum": 3})))
    causes = schema.validate({"spec": {"a": "y", "n": 4}})
    assert [cause.message for cause in causes] == [
        "Invalid value: \"y\": spec.a in body should match '^x'",
        "Invalid value: 4: spec.n in body should be less than or equal to 3",
    ]


def test_a_format_that_is_not_checked_here_is_refused() -> None:
    """What a real server would check and we cannot is refused when the schema is installed."""
    with pytest.raises(SchemaError, match="creditcard"):
        Schema.compile(root(fields(a=text(format="creditcard"))))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "l", "m", "u", "metadata"]), inner, max_size=4)
    ),
    max_leaves=15,
)
ANY = Schema.compile(
    root(
        fields(
            a=text(default="d"),
            b=fields(a=I, b={"type": "number", "nullable": True}),
            l=array(fields(a=S, b=array(I)), **{"x-kubernetes-list-type": "map",
                                                "x-kubernetes-list-map-keys": ["a"]}),
            m=mapping(fields(a=text(minLength=1, default="x"))),
        )
    )
)  # fmt: skip


@given(JSON)
def test_no_body_breaks_the_passes(spec: Any) -> None:
    """Whatever JSON is sent, the passes end; doing them again changes and finds nothing new."""
    body: dict[str, Any] = {"spec": spec}
    ANY.prune(body)
    ANY.default(body)
    once = repr(body)
    causes = ANY.validate(body)
    assert ANY.prune(body) == []
    ANY.default(body)
    assert repr(body) == once
    assert ANY.validate(body) == causes
    assert ANY.validate(body, {"spec": body["spec"]} if "spec" in body else {}) is not None
