"""One compiled place in an OpenAPI tree: what may stand there, and what is looked at and when.

openapi dict ──► Builder.node ──► Node ◄── schema.py (prune, default), validate.py

A Node answers the common questions (is this class of value accepted? is there anything below that
has a default?) by attribute, so that walking an object costs little. `$ref` nodes are shared: the
tree may be a graph, and may contain itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from boilerhouse.embedded.apiserver.schemas import formats
from boilerhouse.embedded.apiserver.schemas.regex import BadPattern, Pattern, compile_re2

_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_NULL: Final[type] = type(None)
_EVERY: Final[frozenset[type]] = frozenset((str, int, float, bool, list, dict, _NULL))
_UNBOUNDED: Final = 2**64
_CONTAINERS: Final[frozenset[type]] = frozenset((list, dict))
_REF_PREFIXES: Final = ("#/components/schemas/", "#/definitions/")
REFUSED_KEY: Final = "x-boilerhouse-refused"
MISSING: Final = object()

# A body that has been through all of this under the schema of today: what another body has of it,
# as the very same object at the same place, is neither looked at again nor written to.
Baseline = Mapping[str, Any]
NOTHING: Final[Baseline] = {}


def changed_fields(value: dict[str, Any], baseline: Baseline) -> dict[str, Any]:
    """Return the fields of a dict that are not the very ones of the baseline."""
    if not baseline:
        return value
    return {key: item for key, item in value.items() if item is not baseline.get(key, MISSING)}


class SchemaError(ValueError):
    """A schema cannot be compiled; `path` says where in the schema."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class Bound(NamedTuple):
    """One end of a range."""

    limit: float
    exclusive: bool


class Text(NamedTuple):
    """What a string must obey. Lengths are in code points."""

    least: int | None
    most: int | None
    pattern: Pattern | None
    written: str
    format: str
    is_format: Callable[[str], bool] | None


class Number(NamedTuple):
    minimum: Bound | None
    maximum: Bound | None
    multiple: float | None
    # Integers from low to high satisfy both bounds; an empty range when multiple is set.
    low: int
    high: int


class Logic(NamedTuple):
    """Value validations that combine others."""

    all_of: tuple[Node, ...]
    any_of: tuple[Node, ...]
    one_of: tuple[Node, ...]
    negated: Node | None


class Node:
    """A compiled schema. Only `Builder` fills it in; afterwards nothing changes it."""

    __slots__ = (
        "accepts", "additional", "additional_known", "closed", "default", "defaulting",
        "defaults_below", "embedded", "embeds_below", "enum", "enum_set", "int_or_string", "items",
        "least_items", "least_props", "limited", "list_keys", "list_type", "listing", "lists_below",
        "logic", "most_items", "most_props", "nullable", "number", "openapi", "plain",
        "preserve", "props", "refused", "refused_below", "refusing", "required", "text",
        "type_names", "typed", "unique",
    )  # fmt: skip

    accepts: frozenset[type]
    additional: Node | None
    additional_known: bool  # additionalProperties is written, if only as true or false
    closed: bool  # additionalProperties: false
    default: Any  # MISSING, or the JSON value (copied on every use)
    defaulting: tuple[tuple[str, Node], ...]  # the properties with a default, or with one below
    defaults_below: bool
    embedded: bool
    embeds_below: bool
    enum: list[Any] | None
    enum_set: frozenset[str] | None  # when the enum has only strings
    int_or_string: bool
    items: Node | None
    least_items: int | None
    least_props: int | None
    limited: bool  # there is a least or most, of items or properties
    list_keys: tuple[str, ...]
    list_type: str
    listing: frozenset[str]  # the properties with lists_below
    lists_below: bool  # a set or map list is here or below
    logic: Logic | None
    most_items: int | None
    most_props: int | None
    nullable: bool
    number: Number | None
    openapi: Mapping[str, Any]
    plain: bool  # a scalar about which nothing but its class is asked
    preserve: bool
    props: dict[str, Node]
    refused: str
    refused_below: bool
    refusing: frozenset[str]  # the properties that are refused, or have such below
    required: tuple[str, ...]
    text: Text | None
    type_names: str
    typed: bool
    unique: bool

    def children(self) -> Iterable[Node]:
        yield from self.props.values()
        if self.items is not None:
            yield self.items
        if self.additional is not None:
            yield self.additional


def _alternatives(openapi: Mapping[str, Any]) -> list[str]:
    """Return the types of a `oneOf` that lists types and nothing else, as quantities have it."""
    choices = openapi.get("oneOf") or ()
    if all(choice.keys() == {"type"} for choice in choices):
        return [choice["type"] for choice in choices]
    return []


class Builder:
    """Compiles trees that share `definitions`; every `$ref` is compiled once."""

    def __init__(self, definitions: Mapping[str, Any] | None = None) -> None:
        self._definitions = definitions or {}
        # Kinds with definitions are Go structs on a real server: there int32 is a range.
        self._ranges = definitions is not None
        self._shared: dict[str, Node] = {}
        self._nodes: list[Node] = []

    def tree(self, openapi: Mapping[str, Any]) -> Node:
        """Compile a whole tree and settle what each node knows of those below it."""
        self._nodes = []
        node = self.node(openapi, "")
        self._settle()
        return node

    def node(self, openapi: Mapping[str, Any], path: str) -> Node:
        ref = openapi.get("$ref")
        if ref is None:
            refs = openapi.get("allOf")
            # In the OpenAPI of built-in kinds a reference with siblings is an allOf of one.
            if self._definitions and refs and len(refs) == 1 and "$ref" in refs[0]:
                ref = refs[0]["$ref"]
        if ref is not None:
            siblings = {key: openapi[key] for key in ("default", REFUSED_KEY) if key in openapi}
            return self._reference(ref, siblings, path)
        node = Node()
        self._fill(node, openapi, path)
        return node

    def _reference(self, ref: str, siblings: dict[str, Any], path: str) -> Node:
        name = ref
        for prefix in _REF_PREFIXES:
            name = name.removeprefix(prefix)
        if name not in self._definitions:
            raise SchemaError(path, f"$ref to {ref}, which is not defined")
        key = name if not siblings else f"{name} {msgspec.json.encode(siblings).decode()}"
        node = self._shared.get(key)
        if node is None:
            node = self._shared[key] = Node()
            self._fill(node, {**self._definitions[name], **siblings}, path)
        return node

    def _fill(self, node: Node, openapi: Mapping[str, Any], path: str) -> None:
        self._nodes.append(node)
        get = openapi.get
        node.openapi = openapi
        node.int_or_string = bool(get("x-kubernetes-int-or-string"))
        node.nullable = bool(get("nullable"))
        self._fill_types(node, openapi, path)
        node.preserve = bool(get("x-kubernetes-preserve-unknown-fields"))
        node.embedded = bool(get("x-kubernetes-embedded-resource"))
        node.list_type = get("x-kubernetes-list-type") or ""
        node.list_keys = tuple(get("x-kubernetes-list-map-keys") or ())
        default = get("default")
        node.default = MISSING if default is None else default
        node.refused = get(REFUSED_KEY) or ""
        node.required = tuple(get("required") or ())
        node.least_items, node.most_items = get("minItems"), get("maxItems")
        node.least_props, node.most_props = get("minProperties"), get("maxProperties")
        node.unique = bool(get("uniqueItems"))
        limits = (node.least_items, node.most_items, node.least_props, node.most_props)
        node.limited = node.unique or any(limit is not None for limit in limits)
        node.enum = get("enum") or None
        strings = node.enum is not None and all(isinstance(value, str) for value in node.enum)
        node.enum_set = frozenset(node.enum or ()) if strings else None
        node.text = self._text(openapi, path)
        node.number = self._number(openapi)
        node.defaults_below = node.refused_below = node.lists_below = node.embeds_below = False
        node.props = {
            name: self.node(child, f"{path}.properties[{name}]")
            for name, child in (get("properties") or {}).items()
        }
        items = get("items")
        node.items = None if items is None else self.node(items, f"{path}.items")
        extra = get("additionalProperties")
        node.additional_known = extra is not None
        node.closed = extra is False
        node.additional = (
            self.node(extra, f"{path}.additionalProperties") if isinstance(extra, Mapping) else None
        )
        node.logic = self._logic(openapi, path)
        node.plain = (
            not (node.accepts & _CONTAINERS or int in node.accepts)
            and node.text is node.enum is node.logic is None
        )

    def _fill_types(self, node: Node, openapi: Mapping[str, Any], path: str) -> None:
        name = openapi.get("type")
        if node.int_or_string:
            classes: frozenset[type] = frozenset({int, str})
            node.type_names = "integer,string"
        elif name is None and self._ranges and (names := _alternatives(openapi)):
            classes = frozenset(cls for each in names for cls in _CLASSES[each])
            node.type_names = ",".join(names)
        elif name is None:
            classes = _EVERY
            node.type_names = ""
        elif name in _CLASSES:
            classes = frozenset(_CLASSES[name])
            node.type_names = name
        else:
            raise SchemaError(f"{path}.type", f"unknown type {name!r}")
        node.typed = bool(node.type_names)
        node.accepts = classes.union((_NULL,)) if node.nullable else classes

    def _text(self, openapi: Mapping[str, Any], path: str) -> Text | None:
        least, most = openapi.get("minLength"), openapi.get("maxLength")
        written = openapi.get("pattern") or ""
        named = formats.normal(openapi.get("format") or "")
        if named in formats.REFUSED and openapi.get("type") == "string":
            raise SchemaError(f"{path}.format", f"the format {named} is not supported here")
        check = formats.CHECKS.get(named)
        if least is None and most is None and not written and check is None:
            return None
        try:
            pattern = compile_re2(written) if written else None
        except BadPattern as error:
            raise SchemaError(
                f"{path}.pattern", f"must be a valid regular expression, but isn't: {error}"
            ) from error
        return Text(least, most, pattern, written, openapi.get("format") or "", check)

    def _number(self, openapi: Mapping[str, Any]) -> Number | None:
        low, high = openapi.get("minimum"), openapi.get("maximum")
        multiple = openapi.get("multipleOf")
        minimum = None if low is None else Bound(low, bool(openapi.get("exclusiveMinimum")))
        maximum = None if high is None else Bound(high, bool(openapi.get("exclusiveMaximum")))
        if self._ranges and openapi.get("format") == "int32":
            minimum = minimum or Bound(-(2**31), False)
            maximum = maximum or Bound(2**31 - 1, False)
        if minimum is maximum is multiple is None:
            return None
        low, high = -_UNBOUNDED, _UNBOUNDED
        if minimum is not None:  # the server cuts a bound's fraction off before it compares
            low = int(minimum.limit) + minimum.exclusive
        if maximum is not None:
            high = int(maximum.limit) - maximum.exclusive
        return Number(minimum, maximum, multiple, low, high if multiple is None else low - 1)

    def _logic(self, openapi: Mapping[str, Any], path: str) -> Logic | None:
        if self._ranges and _alternatives(openapi):
            return None
        all_of, any_of, one_of = (
            tuple(
                self.node(child, f"{path}.{key}[{index}]")
                for index, child in enumerate(openapi.get(key) or ())
            )
            for key in ("allOf", "anyOf", "oneOf")
        )
        other = openapi.get("not")
        negated = None if other is None else self.node(other, f"{path}.not")
        if not (all_of or any_of or one_of or negated):
            return None
        return Logic(all_of, any_of, one_of, negated)

    def _settle(self) -> None:
        """Tell every node what is below it. Repeats until nothing changes, for trees have loops."""
        for node in self._nodes:
            node.lists_below = node.list_type in ("set", "map")
        changed = True
        while changed:
            changed = False
            for node in reversed(self._nodes):
                for child in node.children():
                    defaults = child.defaults_below or child.default is not MISSING
                    refused = child.refused_below or bool(child.refused)
                    embeds = child.embeds_below or child.embedded
                    if (
                        (defaults and not node.defaults_below)
                        or (refused and not node.refused_below)
                        or (embeds and not node.embeds_below)
                        or (child.lists_below and not node.lists_below)
                    ):
                        changed = True
                        node.defaults_below |= defaults
                        node.refused_below |= refused
                        node.embeds_below |= embeds
                        node.lists_below |= child.lists_below
        for node in self._nodes:
            node.defaulting = tuple(
                (name, child)
                for name, child in node.props.items()
                if child.defaults_below or child.default is not MISSING
            )
            node.listing = frozenset(
                name for name, child in node.props.items() if child.lists_below
            )
            node.refusing = frozenset(
                name for name, child in node.props.items() if child.refused or child.refused_below
            )
