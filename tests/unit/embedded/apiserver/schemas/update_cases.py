"""Updates under a schema that may have changed since, with what a real kube-apiserver 1.34 said.

Each case: the schema of `spec` when the object was made, the schema when it is updated, and the two
values of `spec`. The recorded answer in `update_outcomes.json` is the list of causes (reason,
field) of the update, empty when accepted.
"""

# ruff: noqa: E501 - a table reads best with one case to a line

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.unit.embedded.apiserver.schemas.schema_cases import PAIR, array, fields, mapping, text

OUTCOMES: dict[str, list[list[str]]] = json.loads(
    (Path(__file__).parent / "update_outcomes.json").read_text()
)


class Update(NamedTuple):
    name: str
    before: dict[str, Any]
    after: dict[str, Any]
    old: Any
    new: Any


S = text(maxLength=20)
I = {"type": "integer"}  # noqa: E741 - as short as S


def ruled(schema: dict[str, Any], *rules: str, **more: Any) -> dict[str, Any]:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more} for rule in rules]}


def keyed(items: dict[str, Any]) -> dict[str, Any]:
    return array(
        items, maxItems=5, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    )


def always(name: str, schema: dict[str, Any], old: Any, new: Any) -> Update:
    return Update(name, schema, schema, old, new)


FIXED = "self == oldSelf"
SMALL = {**I, "maximum": 3}
ENUM = text(enum=["x", "y"])
UPDATES: list[Update] = [
    # Transition rules
    always("unchanged", ruled(fields(a=S), FIXED), {"a": "x"}, {"a": "x"}),
    always("changed", ruled(fields(a=S), FIXED), {"a": "x"}, {"a": "y"}),
    always("field added", ruled(fields(a=S, b=S), FIXED), {"a": "x"}, {"a": "x", "b": "y"}),
    always("fixed field changed", fields(a=ruled(S, FIXED)), {"a": "x"}, {"a": "y"}),
    always("fixed field removed", fields(a=ruled(S, FIXED)), {"a": "x"}, {}),
    always("fixed field added", fields(a=ruled(S, FIXED)), {}, {"a": "x"}),
    always("once there it stays", ruled(fields(a=S), "!has(oldSelf.a) || has(self.a)"), {"a": "x"}, {}),
    always("only upward", fields(n=ruled(I, "self >= oldSelf")), {"n": 3}, {"n": 2}),
    always("item of a map list changed", fields(l=keyed(ruled(PAIR, "self.v >= oldSelf.v"))), {"l": [{"k": "x", "v": 3}, {"k": "y", "v": 1}]}, {"l": [{"k": "y", "v": 2}, {"k": "x", "v": 2}]}),
    always("item of a map list replaced", fields(l=keyed(ruled(PAIR, "self.v >= oldSelf.v"))), {"l": [{"k": "x", "v": 3}]}, {"l": [{"k": "z", "v": 1}]}),
    always("entry of a map changed", fields(m=mapping(ruled(I, FIXED), maxProperties=5)), {"m": {"x": 1, "y": 1}}, {"m": {"x": 2, "z": 1}}),
    always("set reordered", ruled(fields(s=array(S, maxItems=5, **{"x-kubernetes-list-type": "set"})), "self.s == oldSelf.s"), {"s": ["x", "y"]}, {"s": ["y", "x"]}),
    always("set reordered inside the whole", ruled(fields(s=array(S, maxItems=5, **{"x-kubernetes-list-type": "set"})), FIXED), {"s": ["x", "y"]}, {"s": ["y", "x"]}),
    always("map list reordered", ruled(fields(l=keyed(PAIR)), FIXED), {"l": [{"k": "x", "v": 3}, {"k": "y"}]}, {"l": [{"k": "y"}, {"k": "x", "v": 3}]}),
    always("atomic list reordered", ruled(fields(l=array(S, maxItems=5)), FIXED), {"l": ["x", "y"]}, {"l": ["y", "x"]}),
    always("the same time in another spelling", ruled(fields(t=text(format="date-time")), FIXED), {"t": "2024-05-01T10:00:00Z"}, {"t": "2024-05-01T12:00:00+02:00"}),
    always("the same number in another spelling", ruled(fields(n={"type": "number"}), FIXED), {"n": 1}, {"n": 1.0}),
    always("phase to a legal one", fields(p=ruled(text(enum=["a", "b", "c"]), "oldSelf == self || (oldSelf == 'a' && self in ['b'])")), {"p": "a"}, {"p": "b"}),
    always("phase to an illegal one", fields(p=ruled(text(enum=["a", "b", "c"]), "oldSelf == self || (oldSelf == 'a' && self in ['b'])")), {"p": "a"}, {"p": "c"}),
    always("optional old value there", fields(n=ruled(I, "!oldSelf.hasValue() || self >= oldSelf.value()", optionalOldSelf=True)), {"n": 3}, {"n": 2}),
    always("optional old value absent", fields(n=ruled(I, "oldSelf.hasValue()", optionalOldSelf=True)), {}, {"n": 2}),
    always("optional old value absent in an atomic list", fields(l=array(ruled(I, "self < 5"), maxItems=3)), {"l": [1]}, {"l": [7, 8]}),
    always("reason and path", ruled(fields(a=S, o=fields(b=S)), FIXED, reason="FieldValueForbidden", fieldPath=".o.b"), {"a": "x"}, {"a": "y"}),
    always("reason required", ruled(fields(a=S), FIXED, reason="FieldValueRequired"), {"a": "x"}, {"a": "y"}),
    always("reason duplicate", fields(a=ruled(S, FIXED, reason="FieldValueDuplicate")), {"a": "x"}, {"a": "y"}),
    always("rule and shape both broken", ruled(fields(a=S, b=ENUM), FIXED), {"a": "x"}, {"a": "y", "b": "z"}),
    always("rule and range both broken", ruled(fields(a=S, b=SMALL), FIXED), {"a": "x"}, {"a": "y", "b": 9}),
    # What was wrong before and is left alone
    Update("old value too big, untouched", fields(a=S, n=I), fields(a=S, n=SMALL), {"a": "x", "n": 9}, {"a": "y", "n": 9}),
    Update("old value too big, touched", fields(a=S, n=I), fields(a=S, n=SMALL), {"a": "x", "n": 9}, {"a": "x", "n": 8}),
    Update("old enum, untouched", fields(a=S, p=S), fields(a=S, p=ENUM), {"a": "x", "p": "z"}, {"a": "y", "p": "z"}),
    Update("old value of another type, untouched", fields(a=S, p=S), fields(a=S, p=I), {"a": "x", "p": "z"}, {"a": "y", "p": "z"}),
    Update("required since, parent touched", fields(o=fields(a=S, b=S)), fields(o={**fields(a=S, b=S), "required": ["b"]}), {"o": {"a": "x"}}, {"o": {"a": "y"}}),
    Update("required since, parent untouched", fields(c=S, o=fields(a=S, b=S)), fields(c=S, o={**fields(a=S, b=S), "required": ["b"]}), {"c": "x", "o": {"a": "x"}}, {"c": "y", "o": {"a": "x"}}),
    Update("item of a map list, untouched", fields(l=keyed(PAIR)), fields(l=keyed({**PAIR, "properties": {"k": S, "v": SMALL}})), {"l": [{"k": "x", "v": 9}]}, {"l": [{"k": "y", "v": 1}, {"k": "x", "v": 9}]}),
    Update("item of a map list, another touched", fields(l=keyed(PAIR)), fields(l=keyed({**PAIR, "properties": {"k": S, "v": SMALL}})), {"l": [{"k": "x", "v": 9}, {"k": "y", "v": 8}]}, {"l": [{"k": "x", "v": 9}, {"k": "y", "v": 7}]}),
    Update("item of an atomic list, list touched", fields(l=array(I)), fields(l=array(SMALL)), {"l": [9]}, {"l": [9, 1]}),
    Update("item of an atomic list, list untouched", fields(a=S, l=array(I)), fields(a=S, l=array(SMALL)), {"a": "x", "l": [9]}, {"a": "y", "l": [9]}),
    Update("entry of a map, untouched", fields(m=mapping(I)), fields(m=mapping(SMALL)), {"m": {"x": 9}}, {"m": {"x": 9, "y": 1}}),
    Update("entry of a map, another wrong", fields(m=mapping(I)), fields(m=mapping(SMALL)), {"m": {"x": 9}}, {"m": {"x": 9, "y": 7}}),
    Update("rule since, untouched", fields(a=S, n=I), fields(a=S, n=ruled(I, "self < 3")), {"a": "x", "n": 9}, {"a": "y", "n": 9}),
    Update("rule since, touched", fields(a=S, n=I), fields(a=S, n=ruled(I, "self < 3")), {"a": "x", "n": 9}, {"a": "x", "n": 8}),
    Update("rule on the parent since, sibling touched", fields(o=fields(a=S, n=I)), fields(o=ruled(fields(a=S, n=I), "self.n < 3")), {"o": {"a": "x", "n": 9}}, {"o": {"a": "y", "n": 9}}),
    Update("rule in an atomic list since, list untouched", fields(a=S, l=array(I)), fields(a=S, l=array(ruled(I, "self < 3"), maxItems=3)), {"a": "x", "l": [9]}, {"a": "y", "l": [9]}),
    Update("rule in an atomic list since, list touched", fields(a=S, l=array(I)), fields(a=S, l=array(ruled(I, "self < 3"), maxItems=3)), {"a": "x", "l": [9]}, {"a": "x", "l": [9, 1]}),
    Update("transition rule that fails on what did not change", fields(a=S, n=I), fields(a=S, n=ruled(I, "self != oldSelf")), {"a": "x", "n": 1}, {"a": "y", "n": 1}),
    Update("duplicates since, untouched", fields(a=S, l=array(S)), fields(a=S, l=array(S, **{"x-kubernetes-list-type": "set"})), {"a": "x", "l": ["p", "p"]}, {"a": "y", "l": ["p", "p"]}),
    Update("duplicates since, more of them", fields(a=S, l=array(S)), fields(a=S, l=array(S, **{"x-kubernetes-list-type": "set"})), {"a": "x", "l": ["p", "p"]}, {"a": "x", "l": ["p", "p", "q", "q"]}),
    Update("default since", fields(a=S), fields(a=S, d=text(default="z")), {"a": "x"}, {"a": "y"}),
    Update("one of since, untouched", fields(c=S, o=fields(a=S, b=S)), fields(c=S, o={**fields(a=S, b=S), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}), {"c": "x", "o": {"a": "x", "b": "x"}}, {"c": "y", "o": {"a": "x", "b": "x"}}),
]  # fmt: skip
