"""The pages for people: links lead somewhere, examples are accepted, commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from boilerhouse.engines.template import table
from boilerhouse.operator import catalogue

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
IN_CODE = re.compile(r"`((?:src|tests|docs|config|cluster|bench|examples)/[A-Za-z0-9_./*-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    """A link to a file, and a path in code style, exist."""
    text = page.read_text()
    links = [link for link in LINK.findall(text) if "://" not in link]
    lost = [link for link in links if not (page.parent / link).exists()]
    lost += [path for path in IN_CODE.findall(text) if not any(ROOT.glob(path.rstrip("/")))]
    assert lost == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.yaml")), ids=lambda path: path.name)
def test_examples_are_sound(path: Path) -> None:
    """Every example is an object of a kind of ours, with nothing wrong in its spec."""
    resources = {resource.kind: resource for resource in catalogue.RESOURCES}
    for document in yaml.safe_load_all(path.read_text()):
        assert document["apiVersion"] == "boilerhouse.dev/v1alpha1"
        assert resources[document["kind"]].problems(document["spec"]) == []


def test_the_readme_has_the_two_commands_in_blocks_of_their_own() -> None:
    """`make up` and `make test` can be copied as they stand."""
    text = (ROOT / "README.md").read_text()
    for command in ("make up", "make test"):
        assert f"```\n{command}\n```" in text


def test_every_make_target_that_is_named_exists() -> None:
    """No page names a target that the Makefile does not have."""
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for page in PAGES for name in re.findall(r"\bmake ([a-z0-9-]+)`", page.read_text())
    }
    assert named <= targets


def test_the_glossary_has_every_term_once_and_in_three_columns() -> None:
    """A row is a term, what it is here, and the word that others have for it."""
    text = (ROOT / "docs/glossary.md").read_text()
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    terms = [row[0] for row in rows if row[0] != "term"]
    assert len(terms) >= 50
    assert len(terms) == len(set(terms))
    assert [row for row in rows if len(row) != 3 or not all(cell.strip() for cell in row)] == []


def test_the_changelog_tells_by_kind() -> None:
    """Each release has what was added, changed, fixed and removed, in this order and no other."""
    kinds = ["Added", "Changed", "Fixed", "Removed"]
    _, *releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert releases
    for release in releases:
        told = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert told == [kind for kind in kinds if kind in told]


def test_the_fields_of_a_template_are_those_of_the_table() -> None:
    """docs/engines.md has the table that templates are merged and checked by."""
    assert table.page().rstrip() in (ROOT / "docs" / "engines.md").read_text()
