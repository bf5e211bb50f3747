"""Protobuf bodies: what a real server writes as protobuf reads as what it writes as JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.embedded.apiserver.request import protobuf

# The same stored objects of a 1.34.4 server, asked for in both forms.
CASES = json.loads(Path(__file__).with_name("protobuf_cases.json").read_text())


def without_nothing(value: Any) -> Any:
    """Leave out what says nothing: Go writes it in one form and leaves it out of the other."""
    if isinstance(value, dict):
        kept = {key: without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", 0, {}, [])}
    if isinstance(value, list):
        return [without_nothing(item) for item in value]
    return value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["json"]["kind"])
def test_both_forms_of_an_object_say_the_same(case: dict[str, Any]) -> None:
    """Field by field: quantities, times, unions, inlined sources, bytes, negative numbers."""
    decoded = protobuf.decode(base64.b64decode(case["protobuf"]))
    assert without_nothing(decoded) == without_nothing(case["json"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["json"]["kind"])
def test_what_json_says_explicitly_is_never_lost(case: dict[str, Any]) -> None:
    """An explicit false or zero (automountServiceAccountToken) survives."""

    def missing(want: Any, have: Any, path: str) -> list[str]:
        if isinstance(want, dict):
            return [
                lost
                for key, item in want.items()
                if item not in ({}, [], "")
                for lost in (
                    missing(item, have[key], f"{path}.{key}") if key in have else [f"{path}.{key}"]
                )
            ]
        if isinstance(want, list):
            pairs = zip(want, have, strict=True)
            return [
                lost for n, (w, h) in enumerate(pairs) for lost in missing(w, h, f"{path}[{n}]")
            ]
        return [] if want == have else [path]

    decoded = protobuf.decode(base64.b64decode(case["protobuf"]))
    assert missing(case["json"], decoded, "") == []


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"{}", "k8s"),
        (b"k8s\x00\x0a\xff", "cut short"),
        (b"k8s\x00\x0a" + b"\xff" * 10, "too long"),
        (b"k8s\x00\x08\x01", "expected"),
        (b"k8s\x00\x0b", "wire type 3"),
    ],
)
def test_bytes_that_are_no_message_are_refused(data: bytes, complaint: str) -> None:
    """Every way of being wrong is a ValueError that says which."""
    with pytest.raises(ValueError, match=complaint):
        protobuf.decode(data)


def test_a_type_without_a_protobuf_form_is_told_apart() -> None:
    """Custom resources have none, so that is another answer than bad bytes."""
    type_meta = b"\x0a\x08demo/v1x\x12\x06Widget"
    envelope = b"k8s\x00\x0a" + bytes([len(type_meta)]) + type_meta
    with pytest.raises(protobuf.NoSuchMessage, match="Widget"):
        protobuf.decode(envelope)


@given(st.binary(max_size=400), st.sampled_from(CASES))
def test_any_bytes_end_in_an_object_or_an_error(data: bytes, case: dict[str, Any]) -> None:
    """Hostile bytes behind a good envelope never crash the decoder."""
    whole = base64.b64decode(case["protobuf"])
    for hostile in (b"k8s\x00" + data, whole[: len(data)], whole[:60] + data + whole[60:]):
        try:
            assert isinstance(protobuf.decode(hostile), dict)
        except (ValueError, protobuf.NoSuchMessage):
            continue
