"""The schema engine gives the answers a real kube-apiserver gave."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.schemas.schema import Schema
from tests.unit.embedded.apiserver.schemas.schema_cases import CASES, OUTCOMES, Case, root


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_outcome_as_the_real_server(case: Case) -> None:
    """Pruned, defaulted and judged like the recording: same object, or same reasons and fields."""
    schema = Schema.compile(root(case.schema))
    body: dict[str, Any] = copy.deepcopy({"spec": case.spec, **case.rest})
    unknown = schema.prune(body)
    schema.default(body)
    causes = sorted([cause.reason, cause.field] for cause in schema.validate(body))
    expected = OUTCOMES[case.name]
    if causes:
        assert {"causes": causes} == expected
    else:
        assert {"stored": body, **({"unknown": unknown} if unknown else {})} == expected


def test_every_recording_has_its_case() -> None:
    """No recorded answer is left over from a case that is gone."""
    assert sorted(OUTCOMES) == sorted(case.name for case in CASES)
