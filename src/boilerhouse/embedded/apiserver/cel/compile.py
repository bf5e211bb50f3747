"""From the tree of a rule to a function: names and types are settled here, once.

syntax.Expr ──► Compiler ──► Compiled(type, run) ──► run({"self": …}) ──► value

Like the real server, a rule is type-checked against the schema when it is installed, so that most
mistakes never reach an object. One method per form of the tree checks it and returns the closure
that evaluates it. Errors travel as CelError; `&&`, `||`, `all` and `exists` absorb an error when
the other side settles the answer, as CEL says.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

from boilerhouse.embedded.apiserver.cel import functions as cel_functions
from boilerhouse.embedded.apiserver.cel import operators as cel_operators
from boilerhouse.embedded.apiserver.cel.access import item_of, presence, reader
from boilerhouse.embedded.apiserver.cel.macros import compile_macro, compile_optional
from boilerhouse.embedded.apiserver.cel.syntax import (
    Call,
    CelSyntaxError,
    Expr,
    Ident,
    Index,
    ListOf,
    Literal,
    MapOf,
    Select,
    parse,
)
from boilerhouse.embedded.apiserver.cel.types import (
    BOOL,
    BYTES,
    CLASSES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
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
from boilerhouse.embedded.apiserver.schemas.regex import BadPattern, compile_re2

_SIMPLE: Final = {
    "int": INT, "double": DOUBLE, "string": STRING, "bool": BOOL, "bytes": BYTES, "dyn": DYN,
    "timestamp": TIMESTAMP, "duration": DURATION, "list(string)": list_of(STRING),
}  # fmt: skip
_TYPE_NAMES: Final = {
    "int": "int", "double": "double", "string": "string", "bool": "bool", "bytes": "bytes",
    "list": "list", "map": "map", "null_type": "null",
}  # fmt: skip
_LIBRARIES: Final = frozenset({"sets", "optional", "math", "strings", "ip", "format"})
_LITERALS: Final = {
    bool: BOOL, int: INT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip


def compile_expression(text: str, variables: dict[str, Type]) -> Compiled:
    """Compile one expression; raise ValueError (syntax, types, unknown names) with the reason."""
    try:
        return Compiler(variables).compile(parse(text))
    except RecursionError as error:
        raise CelSyntaxError("nested too deeply") from error


def names(text: str, name: str) -> bool:
    """Tell whether an expression refers to a variable."""
    pending: list[Any] = [parse(text)]
    while pending:
        tree = pending.pop()
        if isinstance(tree, Ident) and tree.name == name:
            return True
        if isinstance(tree, tuple) and not isinstance(tree, Literal):
            pending.extend(tree)
    return False


class Compiler:
    """Compiles trees in the scope of some variables."""

    def __init__(self, variables: dict[str, Type]) -> None:
        self.variables = variables

    def inside(self, **names: Type) -> Compiler:
        """Return a compiler for a place where these names are bound too."""
        return Compiler({**self.variables, **names})

    def compile(self, tree: Expr) -> Compiled:
        match tree:
            case Literal(value):
                return Compiled(_LITERALS[value.__class__], lambda env: value)
            case Ident(name):
                return self._ident(name)
            case Select():
                return self._select(tree)
            case Index():
                return self._index(tree)
            case Call():
                return self._call(tree)
            case ListOf(items):
                return self._list(items)
            case MapOf(entries):
                return self._map(entries)

    def _ident(self, name: str) -> Compiled:
        if name in self.variables:
            return Compiled(self.variables[name], itemgetter(name))
        if name in _TYPE_NAMES:
            kind = _TYPE_NAMES[name]
            return Compiled(TYPE, lambda env: kind)
        raise CelTypeError(f"undeclared reference to '{name}'")

    def _select(self, tree: Select) -> Compiled:
        operand = self.compile(tree.operand)
        if tree.optional or operand.type.kind == "optional":
            return self._select_optional(operand, tree.field)
        read, found = reader(operand.type, tree.field)
        run = operand.run
        return Compiled(found, lambda env: read(run(env)))

    def _select_optional(self, operand: Compiled, field: str) -> Compiled:
        inner = operand.type
        optional = inner.kind == "optional" and inner.element is not None
        if optional and inner.element is not None:
            inner = inner.element
        read, found = reader(inner, field)
        has = presence(inner, field)
        run = operand.run

        def select(env: Env) -> Optional:
            value = run(env)
            if optional:
                if not value.present:
                    return NONE
                value = value.value
            return Optional(True, read(value)) if has(value) else NONE

        return Compiled(optional_of(found), select)

    def _index(self, tree: Index) -> Compiled:
        operand, key = self.compile(tree.operand), self.compile(tree.key)
        inner = operand.type
        if inner.kind == "optional" and inner.element is not None:
            inner = inner.element
        wanted = INT if inner.kind == "list" else inner.key if inner.kind == "map" else DYN
        if inner.kind not in ("list", "map", "dyn") or not agree(key.type, wanted or DYN):
            raise no_overload("_[_]", operand.type, key.type)
        element = inner.element or DYN
        convert, run, index = element.convert, operand.run, key.run
        if not tree.optional and operand.type.kind != "optional":

            def read(env: Env) -> Any:
                value = item_of(run(env), index(env))
                return value if convert is None else convert(value)

            return Compiled(element, read)
        unwrap = operand.type.kind == "optional"

        def read_optional(env: Env) -> Optional:
            value = run(env)
            if unwrap:
                if not value.present:
                    return NONE
                value = value.value
            try:
                item = item_of(value, index(env))
            except CelError:
                return NONE
            return Optional(True, item if convert is None else convert(item))

        return Compiled(optional_of(element), read_optional)

    def _call(self, tree: Call) -> Compiled:
        if tree.operator:
            return self._operator(tree)
        macro = compile_macro(self, tree)
        if macro is not None:
            return macro
        target, name = tree.target, tree.name
        if isinstance(target, Ident) and target.name not in self.variables:
            library = target.name
            if library in _LIBRARIES:
                target, name = None, f"{library}.{name}"
        special = compile_optional(self, target, name, tree.args)
        if special is not None:
            return special
        _refuse_missing(_beginning(tree) or name)
        receiver = None if target is None else self.compile(target)
        arguments = [self.compile(argument) for argument in tree.args]
        if receiver is None and name in ("dyn", "type") and len(arguments) == 1:
            return _reflect(name, arguments[0])
        return self._function(name, receiver, arguments, tree)

    def _function(
        self, name: str, receiver: Compiled | None, arguments: list[Compiled], tree: Call
    ) -> Compiled:
        known = cel_functions.overloads(name)
        given = [*([receiver] if receiver else []), *arguments]
        for overload in known:
            takes = (*((overload.receiver,) if overload.receiver else ()), *overload.takes)
            if bool(overload.receiver) != (receiver is not None) or len(takes) != len(given):
                continue
            if all(_fits(each.type, kind) for each, kind in zip(given, takes, strict=True)):
                _check_literals(name, tree)
                return _applied(name, overload, given)
        raise no_overload(name, *(each.type for each in given))

    def _operator(self, tree: Call) -> Compiled:
        arguments = [self.compile(argument) for argument in tree.args]
        types = [argument.type for argument in arguments]
        runs = [argument.run for argument in arguments]
        if tree.name in ("&&", "||", "!"):
            if not all(agree(each, BOOL) for each in types):
                raise no_overload(f"_{tree.name}_", *types)
            return Compiled(BOOL, cel_operators.logic(tree.name, runs))
        if tree.name == "?:":
            if not agree(types[0], BOOL) or not agree(types[1], types[2]):
                raise no_overload("_?_:_", *types)
            test, yes, no = runs
            chosen = types[2] if types[1].kind in ("null", "dyn") else types[1]
            return Compiled(
                chosen, lambda env: yes(env) if cel_operators.truth(test(env)) else no(env)
            )
        found = cel_operators.arithmetic(tree.name, types, runs)
        if found is None:
            raise no_overload(f"_{tree.name}_", *types)
        return Compiled(*found)

    def _list(self, items: tuple[Expr, ...]) -> Compiled:
        compiled = [self.compile(item) for item in items]
        element = _common([each.type for each in compiled])
        runs = [cel_operators.finished(each) for each in compiled]
        if all(_is_constant(item) for item in items):
            made = [run({}) for run in runs]  # nothing ever changes a list in place
            return Compiled(list_of(element), lambda env: made)
        return Compiled(list_of(element), lambda env: [run(env) for run in runs])

    def _map(self, entries: tuple[tuple[Expr, Expr], ...]) -> Compiled:
        keys = [self.compile(key) for key, _ in entries]
        values = [self.compile(value) for _, value in entries]
        made = Type(
            "map",
            key=_common([each.type for each in keys]),
            element=_common([each.type for each in values]),
        )
        pairs = [(k.run, cel_operators.finished(v)) for k, v in zip(keys, values, strict=True)]
        return Compiled(made, lambda env: {key(env): value(env) for key, value in pairs})


def _beginning(tree: Call) -> str:
    """Return the free function that a call of a missing method rests on, or "".

    Of `a.isLessThan(quantity(b))` it is `quantity` that a rule's author looks for.
    """
    pending: list[Any] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, Call) and part.target is None and not part.operator:
            missing = part.name in cel_functions.KNOWN_ELSEWHERE
            if missing and not cel_functions.overloads(part.name):
                return part.name
        if isinstance(part, tuple) and not isinstance(part, Literal):
            pending.extend(part)
    return ""


def _refuse_missing(name: str) -> None:
    if cel_functions.overloads(name) or name in ("dyn", "type"):
        return
    library = name.split(".")[0]
    if name in cel_functions.KNOWN_ELSEWHERE or library in _LIBRARIES:
        raise CelTypeError(f"the function '{name}' is not supported here")
    raise CelTypeError(f"undeclared reference to '{name}'")


def _is_constant(tree: Expr) -> bool:
    if isinstance(tree, ListOf):
        return all(_is_constant(item) for item in tree.items)
    return isinstance(tree, Literal)


def _common(types: list[Type]) -> Type:
    if not types:
        return DYN
    for each in types:
        if not agree(types[0], each):
            raise CelTypeError(f"expected type '{types[0]}' but found '{each}'")
    return types[0]


def _fits(given: Type, kind: str) -> bool:
    return kind == "dyn" or given.kind in (kind, "dyn")


def _reflect(name: str, argument: Compiled) -> Compiled:
    run = cel_operators.finished(argument)
    if name == "dyn":
        return Compiled(DYN, run)
    kinds = {cls: kind for kind, cls in CLASSES.items()}
    return Compiled(TYPE, lambda env: kinds.get(run(env).__class__, "dyn"))


def _applied(name: str, overload: cel_functions.Overload, given: list[Compiled]) -> Compiled:
    runs = [cel_operators.finished(each) for each in given]
    function = overload.run
    if overload.gives == "element":
        result = given[0].type.element or DYN
        result = Type(result.kind, element=result.element, key=result.key)
    else:
        result = _SIMPLE[overload.gives]
    # A dyn argument is checked when its value is there; another overload may be the one for it.
    if any(each.type.kind == "dyn" for each in given):
        return Compiled(result, _guarded(name, runs))
    if len(runs) == 1:
        only = runs[0]
        return Compiled(result, lambda env: function(only(env)))
    if len(runs) == 2:
        first, second = runs
        return Compiled(result, lambda env: function(first(env), second(env)))
    return Compiled(result, lambda env: function(*(run(env) for run in runs)))


def _guarded(name: str, runs: list[Run]) -> Run:
    def call(env: Env) -> Any:
        values = [run(env) for run in runs]
        for overload in cel_functions.overloads(name):
            takes = (*((overload.receiver,) if overload.receiver else ()), *overload.takes)
            if len(takes) == len(values) and all(
                kind == "dyn" or value.__class__ is CLASSES[kind]
                for kind, value in zip(takes, values, strict=True)
            ):
                return overload.run(*values)
        raise CelError(f"no such overload: {name}")

    return call


def _check_literals(name: str, tree: Call) -> None:
    """Refuse at install a pattern, or the text of a number or time, that can never be read."""
    last = tree.args[-1] if tree.args else None
    if not isinstance(last, Literal) or not isinstance(last.value, str):
        return
    try:
        if name in ("matches", "find", "findAll"):
            compile_re2(last.value)
        elif name in ("duration", "timestamp", "int", "double", "bool"):
            cel_functions.overloads(name)[0].run(last.value)
    except (BadPattern, CelError) as error:
        raise CelTypeError(f"invalid {name} argument: {error}") from error
