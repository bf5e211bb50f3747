"""CRDs are accepted and refused as a real kube-apiserver does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.crd.kind import default_crd, kind_from_crd
from boilerhouse.embedded.apiserver.crd.rules import crd_causes
from tests.unit.embedded.apiserver.crd.crd_cases import CHANGES, OUTCOMES, SCHEMAS, crd


def causes(body: dict[str, Any]) -> list[list[str]]:
    default_crd(body)
    return sorted([cause.reason, cause.field] for cause in crd_causes(body))


@pytest.mark.parametrize("name", SCHEMAS)
def test_same_answer_to_a_schema(name: str) -> None:
    """The same reasons at the same places, and what is accepted can be made into a kind."""
    body = crd(copy.deepcopy(SCHEMAS[name]))
    assert causes(body) == OUTCOMES[name]
    if not OUTCOMES[name]:
        assert kind_from_crd(body).plural == "things"


@pytest.mark.parametrize("name", CHANGES)
def test_same_answer_to_a_definition(name: str) -> None:
    """The same reasons at the same places, whatever part of a good definition is changed."""
    body = crd()
    CHANGES[name](body)
    assert causes(body) == OUTCOMES[name]


def test_every_recording_has_its_case() -> None:
    """No recorded answer is left over from a case that is gone."""
    assert sorted(OUTCOMES) == sorted([*SCHEMAS, *CHANGES])
