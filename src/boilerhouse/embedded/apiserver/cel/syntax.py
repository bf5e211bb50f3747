"""The grammar of CEL: from the text of a rule to a tree.

text ──► tokens ──► Parser ──► Expr tree ──► compile.py

Only what the language itself says is known here: names and types are the compiler's business.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

_INT64 = 2**63
_MAX_DEPTH = 60
RESERVED: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>(?:0[xX][0-9A-Fa-f]+|\d+)[uU]?)
  | (?P<string>[rRbB]{0,2}(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
      |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<op>\.\?|\[\?|&&|\|\||<=|>=|==|!=|[-+*/%!<>()\[\]{}.,:?])
    """,
    re.VERBOSE | re.DOTALL,
)
_RAW_STRING = re.compile(r"""[rR]{1}(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')""", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL
)
_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\",
    "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_LITERAL_WORDS: Final = frozenset({"true", "false", "null", "in"})
_RELATIONS: Final = ("<", "<=", ">", ">=", "==", "!=", "in")


class CelSyntaxError(ValueError):
    """The text is not CEL."""


class Literal(NamedTuple):
    value: Any


class Ident(NamedTuple):
    name: str


class Select(NamedTuple):
    """`operand.field`, or `operand.?field`."""

    operand: Expr
    field: str
    optional: bool = False


class Index(NamedTuple):
    operand: Expr
    key: Expr
    optional: bool = False


class Call(NamedTuple):
    """A function or macro, or an operator spelled as itself (`&&`, `!`, `-`, `?:`)."""

    name: str
    args: tuple[Expr, ...]
    target: Expr | None = None
    operator: bool = False


class ListOf(NamedTuple):
    items: tuple[Expr, ...]


class MapOf(NamedTuple):
    entries: tuple[tuple[Expr, Expr], ...]


Expr = Literal | Ident | Select | Index | Call | ListOf | MapOf


def parts(tree: Expr) -> int:
    """Count what an expression is made of: about how long it takes, loops aside."""
    count = 0
    pending: list[Any] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            count += hasattr(part, "_fields")
            if not isinstance(part, Literal):
                pending.extend(part)
    return count


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


@lru_cache(maxsize=16)  # whoever compiles a rule also asks what it names and what it costs
def parse(text: str) -> Expr:
    """Parse one expression; raise CelSyntaxError."""
    parser = _Parser(text)
    tree = parser.expression()
    parser.end()
    return tree


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _RAW_STRING.match(text, at)
        kind = "string"
        if match is None:
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise CelSyntaxError(f"syntax error at character {at + 1}: {text[at : at + 10]!r}")
            kind = match.lastgroup
        if kind != "space":
            found.append(_Token(kind, match[0], at))
        at = match.end()
    found.append(_Token("end", "", at))
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0

    def expression(self) -> Expr:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise CelSyntaxError("nested too deeply")
        tree = self._chain(("||",), lambda: self._chain(("&&",), self._relation))
        if self._take("?"):
            yes = self._chain(("||",), lambda: self._chain(("&&",), self._relation))
            self._need(":")
            tree = Call("?:", (tree, yes, self.expression()), operator=True)
        self._depth -= 1
        return tree

    def end(self) -> None:
        if self._now.kind != "end":
            raise self._error("end of expression")

    @property
    def _now(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> str:
        token = self._now
        if token.text in texts and (token.kind == "op" or token.text == "in"):
            self._at += 1
            return token.text
        return ""

    def _need(self, text: str) -> None:
        if not self._take(text):
            raise self._error(repr(text))

    def _error(self, expected: str) -> CelSyntaxError:
        token = self._now
        found = repr(token.text) if token.text else "the end"
        return CelSyntaxError(
            f"syntax error at character {token.at + 1}: expected {expected}, found {found}"
        )

    def _chain(self, operators: tuple[str, ...], part: Any) -> Expr:
        tree: Expr = part()
        while operator := self._take(*operators):
            tree = Call(operator, (tree, part()), operator=True)
        return tree

    def _relation(self) -> Expr:
        return self._chain(_RELATIONS, self._sum)

    def _sum(self) -> Expr:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/", "%"), self._unary))

    def _unary(self) -> Expr:
        signs: list[str] = []
        while sign := self._take("!", "-"):
            if signs and signs[-1] != sign:
                raise self._error("an operand")
            signs.append(sign)
        if signs and signs[-1] == "-" and self._now.kind in ("int", "float"):
            signs.pop()
            tree = self._member(_number("-" + self._next().text))
        else:
            tree = self._member(self._primary())
        for sign in signs:
            tree = Call(sign, (tree,), operator=True)
        return tree

    def _next(self) -> _Token:
        token = self._now
        self._at += 1
        return token

    def _member(self, tree: Expr) -> Expr:
        while True:
            if self._take("."):
                name = self._name(field=True)
                if self._take("("):
                    tree = Call(name, self._arguments(")"), target=tree)
                else:
                    tree = Select(tree, name)
            elif self._take(".?"):
                tree = Select(tree, self._name(field=True), optional=True)
            elif bracket := self._take("[", "[?"):
                tree = Index(tree, self.expression(), optional=bracket == "[?")
                self._need("]")
            else:
                return tree

    def _name(self, *, field: bool = False) -> str:
        token = self._now
        # A reserved word may name a field: `self.namespace`.
        taken = _LITERAL_WORDS if field else RESERVED
        if token.kind != "ident" or token.text in taken:
            raise self._error("a name")
        self._at += 1
        return token.text

    def _arguments(self, closing: str) -> tuple[Expr, ...]:
        found: list[Expr] = []
        if self._take(closing):
            return ()
        while True:
            found.append(self.expression())
            if self._take(closing):
                return tuple(found)
            self._need(",")
            if closing in "]}" and self._take(closing):
                return tuple(found)

    def _primary(self) -> Expr:
        token = self._now
        if token.kind in ("int", "float"):
            self._at += 1
            return _number(token.text)
        if token.kind == "string":
            self._at += 1
            return Literal(_string(token.text))
        if token.kind == "ident":
            if token.text in ("true", "false", "null"):
                self._at += 1
                return Literal({"true": True, "false": False, "null": None}[token.text])
            name = self._name()
            if self._take("("):
                return Call(name, self._arguments(")"))
            return Ident(name)
        if self._take("("):
            tree = self.expression()
            self._need(")")
            return tree
        if self._take("["):
            return ListOf(self._arguments("]"))
        if self._take("{"):
            return self._map()
        raise self._error("an expression")

    def _map(self) -> Expr:
        entries: list[tuple[Expr, Expr]] = []
        while not self._take("}"):
            if entries:
                self._need(",")
                if self._take("}"):
                    break
            key = self.expression()
            self._need(":")
            entries.append((key, self.expression()))
        return MapOf(tuple(entries))


def _number(text: str) -> Literal:
    if text[-1] in "uU":
        raise CelSyntaxError(f"unsigned integers are not supported here: {text}")
    if re.fullmatch(r"-?(0[xX][0-9A-Fa-f]+|\d+)", text):
        value = int(text, 16) if "x" in text.lower() else int(text)
        if not -_INT64 <= value < _INT64:
            raise CelSyntaxError(f"invalid int literal: {text}")
        return Literal(value)
    return Literal(float(text))


def _string(text: str) -> str | bytes:
    start = re.match(r"[rRbB]*", text)
    prefix = start[0].lower() if start else ""
    body = text[len(prefix) :]
    quotes = 3 if body[:3] in ('"""', "'''") else 1
    body = body[quotes:-quotes]
    if "r" not in prefix:
        body = _ESCAPE.sub(_unescape, body)
    return body.encode() if "b" in prefix else body


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code in _SIMPLE:
        return _SIMPLE[code]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))
    if len(code) == 3:
        return chr(int(code, 8))
    raise CelSyntaxError(f"invalid escape in a string: \\{code}")
