"""JSONPath: the part that columns, scale and selectable fields use."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.embedded.fields.jsonpath import BadPath, compile_path, printed

BODY: dict[str, Any] = {
    "spec": {"replicas": 3, "on": True, "none": None, "a.b": "dotted", "list": [1, 2, 3, 4]},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Other", "status": "False", "n": 2},
            {"type": "Third"},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.replicas", [3]),
        ("{.spec.replicas}", [3]),
        ("$.spec.replicas", [3]),
        ("['spec']['replicas']", [3]),
        (r".spec.a\.b", ["dotted"]),
        ('.spec["a.b"]', ["dotted"]),
        (".spec.on", [True]),
        (".spec.none", []),
        (".spec.absent.deeper", []),
        (".spec.replicas.deeper", []),
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [4]),
        (".spec.list[9]", []),
        (".spec.list[1:3]", [2, 3]),
        (".spec.list[-2:]", [3, 4]),
        (".spec.list[::2]", [1, 3]),
        (".spec.list[*]", [1, 2, 3, 4]),
        (".status.conditions[*].type", ["Ready", "Other", "Third"]),
        (".status.conditions[?(@.type==\"Ready\")].status", ["True"]),
        (".status.conditions[?(@.type == 'Other')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Other", "Third"]),
        (".status.conditions[?(@.n>1)].type", ["Other"]),
        (".status.conditions[?(@.n>=1)].type", ["Ready", "Other"]),
        (".status.conditions[?(@.n<1.5)].type", ["Ready"]),
        (".status.conditions[?(@.n<=1)].type", ["Ready"]),
        (".status.conditions[?(@.status)].type", ["Ready", "Other"]),
        ("..type", ["Ready", "Other", "Third"]),
        (".status..n", [1, 2]),
    ],
)  # fmt: skip
def test_values(path: str, expected: list[Any]) -> None:
    """A path finds these values and skips what is absent."""
    assert compile_path(path).values(BODY) == expected


@pytest.mark.parametrize(
    "path",
    ["spec", ".spec[", ".spec[?(@.a)", ".a[?(@.a ~ 1)]", ".a b", ".a[x]", ".a[?(@.a==)]",
     ".a[::-1]", ".a..", "." * 2000, ".a[0,1]", ".a[?(@.a==1 && @.b==2)]"],
)  # fmt: skip
def test_refused(path: str) -> None:
    """What is not understood is refused when it is compiled, not guessed at."""
    with pytest.raises(BadPath):
        compile_path(path)


def test_first_and_printed() -> None:
    """The first value serves where one is wanted; several are printed with blanks between."""
    assert compile_path(".status.conditions[*].type").first(BODY) == "Ready"
    assert compile_path(".x").first(BODY) is None
    assert printed(["a", 1, True, {"b": [1.5]}]) == 'a 1 true {"b":[1.5]}'
