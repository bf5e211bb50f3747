"""Macros of CEL: `has`, the loops over lists and maps, and optional values.

compile.Compiler ──► compile_macro, compile_optional

A macro's arguments are not evaluated before it: a loop binds a name and evaluates its body once an
item. Apart from the compiler, which is called back for the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from boilerhouse.embedded.apiserver.cel.access import presence
from boilerhouse.embedded.apiserver.cel.budget import PART, TURN, spend
from boilerhouse.embedded.apiserver.cel.operators import finished, truth
from boilerhouse.embedded.apiserver.cel.syntax import Call, Expr, Ident, Select, parts
from boilerhouse.embedded.apiserver.cel.types import (
    BOOL,
    DYN,
    INT,
    CelTypeError,
    Compiled,
    Env,
    Run,
    Type,
    agree,
    list_of,
    no_overload,
    optional_of,
)
from boilerhouse.embedded.apiserver.cel.values import NONE, CelError, Optional

_QUANTIFIERS: Final = {"all", "exists", "exists_one", "existsOne"}


class Scope(Protocol):
    """What macros need of the compiler."""

    variables: dict[str, Type]

    def compile(self, tree: Expr) -> Compiled: ...

    def inside(self, **names: Type) -> Scope: ...


def compile_macro(scope: Scope, tree: Call) -> Compiled | None:
    """Compile a macro, or return None if the call is none."""
    count = len(tree.args)
    if tree.target is None:
        return _has(scope, tree.args[0]) if tree.name == "has" and count == 1 else None
    if tree.name in _QUANTIFIERS and count in (2, 3):
        return _quantifier(scope, tree, tree.target)
    if tree.name in ("map", "filter") and count in (2, 3):
        return _transform(scope, tree, tree.target)
    if tree.name in ("optMap", "optFlatMap") and count == 2:
        return _opt_map(scope, tree, tree.target)
    return None


def _has(scope: Scope, argument: Expr) -> Compiled:
    if not isinstance(argument, Select) or argument.optional:
        raise CelTypeError("invalid argument to has() macro")
    operand = scope.compile(argument.operand)
    if operand.type.kind == "optional" and operand.type.element is not None:
        inside = presence(operand.type.element, argument.field)
        get = operand.run
        return Compiled(BOOL, lambda env: (o := get(env)).present and inside(o.value))
    test, run = presence(operand.type, argument.field), operand.run
    return Compiled(BOOL, lambda env: test(run(env)))


def _name(tree: Expr) -> str:
    if isinstance(tree, Ident):
        return tree.name
    raise CelTypeError("argument must be a simple name")


def _over(range_: Compiled) -> tuple[Type, Type, Callable[[Any], Iterable[tuple[Any, Any]]]]:
    """Return the types of key and item of a range, and what iterates both."""
    given = range_.type
    convert = None if given.element is None else given.element.convert
    if given.kind == "list":
        if convert is None:
            return INT, given.element or DYN, enumerate
        return INT, given.element or DYN, lambda v: ((i, convert(x)) for i, x in enumerate(v))
    if given.kind == "map":
        if convert is None:
            return given.key or DYN, given.element or DYN, lambda value: value.items()
        return (
            given.key or DYN,
            given.element or DYN,
            lambda value: ((key, convert(item)) for key, item in value.items()),
        )
    if given.kind == "dyn":
        return DYN, DYN, _over_anything
    raise CelTypeError(
        f"expression of type '{given}' cannot be range of a comprehension (must be list, map, or "
        "dynamic)"
    )


def _over_anything(value: Any) -> Iterable[tuple[Any, Any]]:
    if value.__class__ is list:
        return enumerate(value)
    if value.__class__ is dict:
        return value.items()
    raise CelError("no such overload")


def _walk(
    range_: Compiled,
    names: list[str],
    iterate: Callable[[Any], Iterable[tuple[Any, Any]]],
    price: int,
) -> Callable[[Env], Iterable[Env]]:
    """Return what yields the environment of each item. One name: a list's item, or a map's key."""
    run = range_.run
    keys_only = range_.type.kind == "map"

    def walk(env: Env) -> Iterable[Env]:
        value = run(env)
        inner = dict(env)
        by_key = keys_only or value.__class__ is dict
        for key, item in iterate(value):
            spend(price)
            if len(names) == 2:
                inner[names[0]], inner[names[1]] = key, item
            else:
                inner[names[0]] = key if by_key else item
            yield inner

    return walk


def _bound(
    scope: Scope, tree: Call, target: Expr, count: int
) -> tuple[Compiled, Scope, Callable[[Env], Iterable[Env]]]:
    range_ = scope.compile(target)
    names = [_name(argument) for argument in tree.args[:count]]
    key, item, iterate = _over(range_)
    single = key if range_.type.kind == "map" else item
    types = {names[0]: single} if count == 1 else {names[0]: key, names[1]: item}
    price = TURN + PART * sum(parts(body) for body in tree.args[count:])
    return range_, scope.inside(**types), _walk(range_, names, iterate, price)


def _quantifier(scope: Scope, tree: Call, target: Expr) -> Compiled:
    _, inner, walk = _bound(scope, tree, target, len(tree.args) - 1)
    body = inner.compile(tree.args[-1])
    if not agree(body.type, BOOL):
        raise no_overload(tree.name, body.type)
    run = body.run
    if tree.name in ("exists_one", "existsOne"):
        return Compiled(BOOL, lambda env: sum(truth(run(each)) for each in walk(env)) == 1)
    decides = tree.name == "exists"

    def quantify(env: Env) -> bool:
        failure: CelError | None = None
        for each in walk(env):
            try:
                if truth(run(each)) is decides:
                    return decides
            except CelError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decides

    return Compiled(BOOL, quantify)


def _transform(scope: Scope, tree: Call, target: Expr) -> Compiled:
    _, inner, walk = _bound(scope, tree, target, 1)
    name = _name(tree.args[0])
    tests = tree.args[1] if tree.name == "filter" or len(tree.args) == 3 else None
    if tree.name == "filter" and len(tree.args) == 3:
        raise CelTypeError("filter() takes a name and a condition")
    keep = None if tests is None else inner.compile(tests)
    if keep is not None and not agree(keep.type, BOOL):
        raise no_overload(tree.name, keep.type)
    test: Run = (lambda env: True) if keep is None else keep.run
    if tree.name == "filter":
        item = inner.variables[name]
        kept = finished(Compiled(item, lambda env: env[name]))
        return Compiled(
            list_of(_detached(item)), lambda env: [kept(e) for e in walk(env) if truth(test(e))]
        )
    made = inner.compile(tree.args[-1])
    make = finished(made)
    return Compiled(
        list_of(_detached(made.type)), lambda env: [make(e) for e in walk(env) if truth(test(e))]
    )


def _detached(given: Type) -> Type:
    """Return the type of a value that has been finished: its leaves need no conversion any more."""
    if given.kind == "object" or (given.convert is None and given.node is None):
        return given
    element = None if given.element is None else _detached(given.element)
    return Type(given.kind, element=element, key=given.key)


def _opt_map(scope: Scope, tree: Call, target: Expr) -> Compiled:
    operand = scope.compile(target)
    if operand.type.kind != "optional":
        raise no_overload(tree.name, operand.type)
    name = _name(tree.args[0])
    body = scope.inside(**{name: operand.type.element or DYN}).compile(tree.args[1])
    run, make = operand.run, body.run
    flat = tree.name == "optFlatMap"
    if flat and body.type.kind != "optional":
        raise no_overload(tree.name, operand.type, body.type)

    def apply(env: Env) -> Optional:
        value = run(env)
        if not value.present:
            return NONE
        result = make({**env, name: value.value})
        return result if flat else Optional(True, result)

    return Compiled(body.type if flat else optional_of(body.type), apply)


def compile_optional(
    scope: Scope, target: Expr | None, name: str, args: tuple[Expr, ...]
) -> Compiled | None:
    """Compile the functions of optional values, or return None if the call is none of them."""
    if target is None:
        if name == "optional.none" and not args:
            return Compiled(optional_of(DYN), lambda env: NONE)
        if name in ("optional.of", "optional.ofNonZeroValue") and len(args) == 1:
            made = scope.compile(args[0])
            run, always = made.run, name == "optional.of"
            return Compiled(
                optional_of(made.type),
                lambda env: Optional(True, v) if (v := run(env)) or always else NONE,
            )
        return None
    if name not in ("hasValue", "value", "orValue", "or"):
        return None
    operand = scope.compile(target)
    if operand.type.kind != "optional":
        return None
    inner, get = operand.type.element or DYN, operand.run
    if name == "hasValue" and not args:
        return Compiled(BOOL, lambda env: get(env).present)
    if name == "value" and not args:
        return Compiled(inner, lambda env: _dereference(get(env)))
    if len(args) != 1:
        return None
    other = scope.compile(args[0])
    wanted = operand.type if name == "or" else inner
    if not agree(other.type, wanted):
        raise no_overload(name, operand.type, other.type)
    otherwise = other.run
    result = other.type if wanted.kind == "dyn" else wanted
    if name == "or":
        return Compiled(result, lambda env: o if (o := get(env)).present else otherwise(env))
    return Compiled(result, lambda env: o.value if (o := get(env)).present else otherwise(env))


def _dereference(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value
