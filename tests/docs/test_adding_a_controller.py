"""docs/adding-a-controller.md shows what is there, and names every piece."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding-a-controller.md").read_text()
EXCERPT = re.compile(r"^`([^`\n]+)`\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_excerpts_are_verbatim() -> None:
    """Each block of Python follows the name of a file, and stands in it as it is shown."""
    excerpts = EXCERPT.findall(PAGE)
    assert len(excerpts) == PAGE.count("```python") >= 8
    changed = [path for path, code in excerpts if code not in (ROOT / path).read_text()]
    assert changed == []


def test_every_file_of_the_folder_is_told_of() -> None:
    """Whoever copies the smallest controller knows what each of its files is for."""
    folder = ROOT / "src/boilerhouse/tenancy/triggers"
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert [name for name in files if f"`{name}`" not in PAGE] == []
