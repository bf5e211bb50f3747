"""Files and decisions that docstrings and comments name: each leads to exactly one place.

src/**.py ─► docstrings (ast), comments (tokenize) ─► `a/b.py`, `docs/x.md`, `ADR 0001` ─► a file
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
NAMED = sorted(
    [
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("src", "tests", "docs", "cluster", "bench", "gameday")
            for path in (ROOT / folder).rglob("*")
            if path.suffix in (".py", ".md")
        ),
    ]
)
_FILE = re.compile(r"(?<![\w/.*-])[\w.*-]+(?:/[\w.*-]+)*\.(?:py|md)\b(?![\w/])")
_DECISION = re.compile(r"\bADR (\d+)")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def prose(source: str) -> Iterator[tuple[int, str]]:
    """Yield every docstring and comment of a module with the line it begins on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node, clean=False)):
            yield node.body[0].lineno, text
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def lost(text: str, page: Path) -> list[str]:
    """Return what is named in `text` and is not one file: missing, or several of that name."""
    wrong = []
    for name in _FILE.findall(text):
        if (page.parent / name).exists():  # a neighbour
            continue
        found = [path for path in NAMED if fnmatch(path.as_posix(), f"*/{name}")]
        if not found or (len(found) > 1 and "*" not in name):
            which = ", ".join(str(path.relative_to(ROOT)) for path in found) or "no such file"
            wrong.append(f"{name}: {which}")
    decisions = [
        f"ADR {number}: no such decision"
        for number in _DECISION.findall(text)
        if len(number) != 4 or len(list(ROOT.glob(f"docs/adr/{number}-*.md"))) != 1
    ]
    return wrong + decisions


def test_what_the_source_names_exists() -> None:
    """A file or decision named in a docstring or comment is there, and is the only one."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        if lost(source := path.read_text(), path)  # code included: the way in detail is slow
        for line, text in prose(source)
        for name in lost(text, path)
    ]
    assert wrong == [], "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the words are those of status.py", ["status.py"]),
        ("see claims/nothing.py", ["claims/nothing.py"]),
        ("docs/nothing.md says why", ["docs/nothing.md"]),
        ("why: ADR 0999", ["ADR 0999"]),
        ("model.py", ["model.py"]),
        ("tenancy/claims/model.py, ADR 0005 and docs/snapshots.md", []),
        ("claims/*/machine.py", ["claims/*/machine.py"]),
        ("tenancy/*/machine.py, linux/fs.h and https://example.org/a.py", []),
    ],
)
def test_what_is_lost_is_found(text: str, names: list[str]) -> None:
    """A name that leads nowhere, or to several files, is told; one that leads somewhere is not."""
    assert [entry.split(":")[0] for entry in lost(text, ROOT / "src" / "a.py")] == names
