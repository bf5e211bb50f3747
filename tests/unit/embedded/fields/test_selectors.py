"""Label and field selectors parse and match as on a real server."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.embedded.fields.selectors import field_selector, label_selector, object_selector
from boilerhouse.platform.kube.status import BadRequest

LABELS = {"app": "web", "tier": "a", "example.com/size": "7", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "app=web", "app==web", "app = web", "app", "!other", "! other", "tier in (a,b)",
        "tier in(a)", "tier in (b, a ,)", "tier notin (b)", "other notin (b)", "app!=x", "other!=x",
        "app=web,tier=a", "app,!x,tier in (a)", "example.com/size=7", "example.com/size>6",
        "example.com/size<8", "empty=", "empty==", "empty in ()", "empty in (,)", "app\tin\t(web)",
        "app\n=web", "empty=,app=web", "other!=",
    ],
)  # fmt: skip
def test_matches(text: str) -> None:
    """These select the object."""
    assert label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "app=x", "other", "!app", "tier in (b)", "tier notin (a)", "app!=web", "app=web,tier=b",
        "other=", "other in ()", "example.com/size>7", "app>1", "in", "app=web,app=x", "empty!=",
    ],
)  # fmt: skip
def test_does_not_match(text: str) -> None:
    """These do not select the object."""
    assert not label_selector(text).matches(LABELS)


@pytest.mark.parametrize("text", ["in", "in in (in)", "notin=x", "a=in", "a in (b,b)"])
def test_operators_are_words_too(text: str) -> None:
    """`in` and `notin` are legal keys and values."""
    label_selector(text)


@pytest.mark.parametrize(
    "text",
    [
        "a in b", "a in (b", ",a", "a,", "a,,b", "=b", "a=b=c", "a>x", "a>=1", "a>", "A/b=c",
        "A.b/c=d", "/c=d", "a/", "a/b/c=d", "a=" + "x" * 64, "x" * 64 + "=a", "a=-x", "a=x y",
        "a in (x y)", "a=(b)", "a in (-)", '"a"=b', "a='b'", "é=1", "(a)", "a in (b)c", "a!b",
        "!a=b", "! !a", "a=b)", "a!==b", "!", "a in (b,(c))",
    ],
)  # fmt: skip
def test_bad_label_selectors(text: str) -> None:
    """What a real server refuses is a bad request here."""
    with pytest.raises(BadRequest):
        label_selector(text)


def test_unlabelled_objects() -> None:
    """An object without labels is matched by conditions that need none."""
    assert label_selector("!a,b notin (c)").matches(None)
    assert not label_selector("a").matches(None)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "x"}}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "Exists"}]}, False),
    ],
)
def test_selector_objects(selector: dict[str, Any], expected: bool) -> None:
    """A LabelSelector inside an object selects by labels and expressions together."""
    assert object_selector(selector).matches(LABELS) is expected


def test_selector_object_with_unknown_operator() -> None:
    """An operator nobody knows is refused instead of matching at random."""
    with pytest.raises(BadRequest, match="Near"):
        object_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})


POD = {"metadata": {"name": "a", "namespace": "n"}, "spec": {"nodeName": "x,y=z"}}
SELECTABLE = {"spec.nodeName": lambda body: body.get("spec", {}).get("nodeName", "")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        (",", True),
        ("metadata.name=a", True),
        ("metadata.name==a", True),
        ("metadata.name!=a", False),
        ("metadata.name=a,metadata.namespace=n", True),
        ("metadata.name=a,metadata.namespace=m", False),
        (r"spec.nodeName=x\,y\=z", True),
        (r"spec.nodeName!=x\,y\=z,", False),
        ("spec.nodeName=", False),
    ],
)
def test_field_selectors(text: str, expected: bool) -> None:
    """Fields are compared as strings, with escapes for comma, equals and backslash."""
    assert field_selector(text, SELECTABLE).matches(POD) is expected


@pytest.mark.parametrize(
    "text",
    ["metadata.name", "metadata.name=a=b", "metadata.name=a\\x", "metadata.name=a\\", "=a"],
)
def test_bad_field_selectors(text: str) -> None:
    """A term without an operator or with a stray character is a bad request."""
    with pytest.raises(BadRequest):
        field_selector(text, SELECTABLE)


def test_unsupported_field_is_named() -> None:
    """A field that is not selectable is named in the refusal."""
    with pytest.raises(BadRequest, match=r"field label not supported: metadata\.uid"):
        field_selector("metadata.uid=1", SELECTABLE)


def test_exact_value() -> None:
    """A selector tells which single value a path must have, if it does."""
    selector = field_selector("metadata.name=a,spec.nodeName!=b", SELECTABLE)
    assert selector.exactly("metadata.name") == "a"
    assert selector.exactly("spec.nodeName") is None
