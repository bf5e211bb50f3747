"""Rules as users meet them: messages, places, and what is refused when they are installed."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

from boilerhouse.embedded.apiserver.cel.rules import Rules, RulesRefused, unchecked
from boilerhouse.embedded.apiserver.cel.syntax import CelSyntaxError, parse
from boilerhouse.platform.kube.status import Cause, required
from tests.unit.embedded.apiserver.schemas.schema_cases import array, fields, mapping, root, text

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
    assert "the function 'quantity' is not supported here" in cause.message


def test_every_bad_rule_is_reported() -> None:
    """All rules are looked at before any is refused."""
    spec = {**fields(a=S), "x-kubernetes-validations": [{"rule": "self.b"}, {"rule": "1"}]}
    with pytest.raises(RulesRefused) as refused:
        Rules.compile(root(spec), path="schema")
    assert [cause.field for cause in refused.value.causes] == [
        "schema.properties[spec].x-kubernetes-validations[0].rule",
        "schema.properties[spec].x-kubernetes-validations[1].rule",
    ]


def spec_of(rule: str, **properties: Any) -> Rules:
    spec = {**fields(**properties), "x-kubernetes-validations": [{"rule": rule}]}
    return Rules.compile(root(spec))


@pytest.mark.parametrize(
    "rule",
    [
        "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))",
        "self.l.all(a, self.l == self.m)",
        "self.l.all(a, self.l.all(b, b in self.m))",
        "self.l.all(a, sets.equivalent(self.l, self.m))",
        "self.l.all(a, self.l.all(b, self.a.contains('b') || b >= 0))",
        "self.l.all(a, self.l.map(b, b * 2).filter(b, b > 1).isSorted())",
        "self.a.replace('a', self.a).size() > 0",
        "self.l.all(a, self.l.all(b, (self.a + self.a).size() > 0))",
        "self.l.all(a, self.l.all(b, self.a.split('').join('-').upperAscii() != 'x'))",
        "self.l.all(a, self.a.matches('[^b]{900}b') == false)",
        "self.l.all(a, self.a.findAll('a').size() > 0)",
        "self.a.matches(self.a + self.a) == false",
        "self.l.all(a, self.l.all(b, 'x'.matches(string(a * 2000 + b)) == false))",
        "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0))) || true",
        "self.l.exists(a, self.l.all(b, self.l.all(c, a + b + c >= 0)) && false)",
    ],
)
def test_a_rule_that_is_too_expensive_is_stopped(rule: str) -> None:
    """Visited items, compared values and made strings all count; the cause says what was stopped.

    Nothing absorbs it: neither `||` nor `exists` makes an answer of a rule that was not finished.
    """
    rules = spec_of(rule, l=array(I), m=array(I), a=S)
    numbers = list(range(2000))
    tracemalloc.start()
    began = time.thread_time()
    found = messages(rules, {"l": numbers, "m": list(numbers), "a": "a" * 20_000})
    took = time.thread_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    [message] = found
    assert "running out of cost budget, no further validation rules will be run" in message
    assert f"too expensive is the rule: {rule}" in message
    assert peak < 20_000_000
    assert took < 2  # without the tracing it is about 0.05


def test_the_budget_is_one_for_all_rules_of_an_object_and_new_for_the_next() -> None:
    """Many rules that are cheap alone are stopped together; the next object starts afresh."""
    rule = {"rule": "self.all(x, x >= 0)"}
    rules = Rules.compile(root(fields(l=array({**array(I), "x-kubernetes-validations": [rule]}))))
    small, large = [list(range(100))] * 10, [list(range(100))] * 1000
    assert messages(rules, {"l": small}) == []
    [message] = messages(rules, {"l": large})
    assert "cost budget" in message
    assert messages(rules, {"l": small}) == []


def test_rules_over_hundreds_of_items_are_well_within_the_budget() -> None:
    """What real CRDs do with lists of a hundred items, each against each, passes."""
    unique = spec_of("self.s.all(x, self.s.exists_one(y, x == y))", s=array(S))
    assert messages(unique, {"s": [f"name-{n}" for n in range(100)]}) == []
    named = spec_of("self.s.all(x, x.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'))", s=array(S))
    assert messages(named, {"s": [f"name-{n}" for n in range(1000)]}) == []


@pytest.mark.parametrize(
    "rule",
    [
        "quantity(self.a).isGreaterThan(quantity('1Gi'))",
        "self.a.isGreaterThan(quantity('1Gi'))",
        "quantity(self.a).add(quantity('1')).isLessThan(quantity('2'))",
    ],
)
def test_a_missing_library_is_named_by_the_function_that_begins_it(rule: str) -> None:
    """Who writes quantities reads that `quantity` is missing, not one of its methods."""
    with pytest.raises(RulesRefused, match="the function 'quantity' is not supported here"):
        compiled(rule)


def test_a_number_of_a_million_digits_is_no_number() -> None:
    """A text too long for any integer is an error of the rule, not of the server."""
    [message] = messages(compiled("int(self.a) > 0"), {"a": "1" * 1_000_000})
    assert "type conversion error" in message


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
