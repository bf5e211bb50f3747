"""Rules as users meet them: messages, places, and what is refused when they are installed."""

from __future__ import annotations

from typing import Any

import pytest

from boilerhouse.embedded.cel.rules import Rules, RulesRefused, unchecked
from boilerhouse.embedded.cel.syntax import CelSyntaxError, parse
from boilerhouse.kube.status import Cause, required
from tests.unit.embedded.schema_cases import array, fields, mapping, root, text

S = text()
I = {"type": "integer"}  # noqa: E741 - as short as S


def compiled(rule: str, **more: Any) -> Rules:
    spec = {**fields(a=S, n=I), "x-kubernetes-validations": [{"rule": rule, **more}]}
    return Rules.compile(root(spec))


def messages(rules: Rules, spec: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"spec": old}
    return [cause.message for cause in rules.check({"spec": spec}, before)]


def test_a_schema_without_rules_has_none() -> None:
    """No rules: nothing to check, and the value says so."""
    rules = Rules.compile(root(fields(a=S)))
    assert not rules
    assert rules.check({"spec": {}}) == []


def test_the_message_says_which_rule_failed() -> None:
    """Without a message of its own, a rule is quoted."""
    assert messages(compiled("self.n > 1"), {"n": 1}) == [
        'Invalid value: "object": failed rule: self.n > 1'
    ]
    assert messages(compiled("self.n > 1", message=" too small "), {"n": 1}) == [
        'Invalid value: "object": too small'
    ]


def test_a_message_may_be_computed() -> None:
    """messageExpression speaks of the object; if it cannot be computed, the message stands in."""
    rules = compiled("self.n > 1", message="small", messageExpression="'n is ' + string(self.n)")
    assert messages(rules, {"n": 1}) == ['Invalid value: "object": n is 1']
    broken = compiled("self.n > 1", message="small", messageExpression="self.a + '!'")
    assert messages(broken, {"n": 1}) == ['Invalid value: "object": small']


def test_a_rule_that_breaks_down_is_a_failure_that_says_why() -> None:
    """Reading what is not there is an error of the rule, and the object is refused with it."""
    assert messages(compiled("self.n > 1"), {}) == [
        'Invalid value: "object": no such key: n evaluating rule: self.n > 1'
    ]


def test_rules_at_every_level_are_found() -> None:
    """Rules of the root, of fields, items and map entries are all checked, each at its place."""
    never = {"x-kubernetes-validations": [{"rule": "false"}]}
    schema = {
        **root(
            {
                **fields(
                    a={**S, **never},
                    l=array({**I, **never}),
                    m=mapping({**S, **never}),
                    o=fields(deep={**I, **never}),
                ),
                **never,
            }
        ),
        **never,
    }
    body = {"spec": {"a": "", "l": [1, 2], "m": {"k": "v"}, "o": {"deep": 1}}}
    assert [cause.field for cause in Rules.compile(schema).check(body)] == [
        "<nil>", "spec", "spec.a", "spec.l[0]", "spec.l[1]", "spec.m[k]", "spec.o.deep",
    ]  # fmt: skip


def test_a_refused_rule_says_where_it_stands_and_what_it_lacks() -> None:
    """The cause has the path of the rule in the schema, and the name of the missing function."""
    with pytest.raises(RulesRefused) as refused:
        compiled("quantity(self.a).isGreaterThan(quantity('1'))")
    [cause] = refused.value.causes
    assert cause.field == ".properties[spec].x-kubernetes-validations[0].rule"
    assert "the function 'isGreaterThan' is not supported here" in cause.message


def test_every_bad_rule_is_reported() -> None:
    """All rules are looked at before any is refused."""
    spec = {**fields(a=S), "x-kubernetes-validations": [{"rule": "self.b"}, {"rule": "1"}]}
    with pytest.raises(RulesRefused) as refused:
        Rules.compile(root(spec), path="schema")
    assert [cause.field for cause in refused.value.causes] == [
        "schema.properties[spec].x-kubernetes-validations[0].rule",
        "schema.properties[spec].x-kubernetes-validations[1].rule",
    ]


def test_loops_are_bounded() -> None:
    """A rule that loops over loops is stopped, not waited for."""
    spec = {
        **fields(l=array(I)),
        "x-kubernetes-validations": [
            {"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"}
        ],
    }
    [message] = messages(Rules.compile(root(spec)), {"l": [1] * 200})
    assert "too many items" in message


def test_rules_are_not_checked_on_an_object_of_the_wrong_shape() -> None:
    """A missing field stops the rules with one cause that says so; a wrong range does not."""
    assert unchecked([required("spec.a")]) is not None
    assert unchecked([Cause("FieldValueInvalid", "", "spec.n")]) is None


@pytest.mark.parametrize("text", ["", "a b", "a.", "(a", "[1", "{1}", "'x", "a ? b", "1 +", "a..b"])
def test_what_is_not_cel(text: str) -> None:
    """Syntax errors are found with their place."""
    with pytest.raises(CelSyntaxError):
        parse(text)


def test_deep_nesting_is_refused() -> None:
    """A rule made of ten thousand parentheses is refused, not a crash."""
    with pytest.raises(RulesRefused, match="deeply"):
        compiled("(" * 10_000 + "true" + ")" * 10_000)
