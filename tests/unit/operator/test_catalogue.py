"""Generated files are fresh, and YAML is written so that Kubernetes reads what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from boilerhouse.operator.catalogue import (
    CRD_DIR,
    LIFECYCLES_DIR,
    MACHINES,
    crds,
    generated,
    to_yaml,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("path", generated(), ids=str)
def test_generated_files_are_fresh(path: Path) -> None:
    """Every generated file is what `make gen` would write now."""
    assert (ROOT / path).read_text() == generated()[path], "run `make gen`"


@pytest.mark.parametrize("folder", [CRD_DIR, LIFECYCLES_DIR], ids=str)
def test_no_generated_file_is_left_over(folder: Path) -> None:
    """What is no longer generated is no longer there."""
    there = {path.relative_to(ROOT) for path in (ROOT / folder).iterdir()}
    assert there == {path for path in generated() if path.parent == folder}


def test_manifests_say_what_the_code_says() -> None:
    """Reading the files gives the very CRDs that the embedded API installs."""
    texts = [text for path, text in generated().items() if path.parent == CRD_DIR]
    assert [yaml.safe_load(text) for text in texts] == crds()


def test_every_lifecycle_has_a_page_and_is_in_the_index() -> None:
    """The index links to each page."""
    pages = generated()
    index = pages[LIFECYCLES_DIR / "README.md"]
    for machine in MACHINES:
        assert LIFECYCLES_DIR / f"{machine.name.lower()}.md" in pages
        assert f"[{machine.name}]({machine.name.lower()}.md)" in index


def test_crds_are_fresh_values() -> None:
    """Whoever changes what it was given changes nothing for others."""
    crds()[0]["spec"].clear()
    assert crds()[0]["spec"]


ODD_WORDS = "y Y n N yes no on off true null ~ 1 1.0 1e3 0x1f 0o7 .5 +1 1_000"


@pytest.mark.parametrize("word", ODD_WORDS.split(" "))
def test_texts_that_yaml_takes_for_values_are_quoted(word: str) -> None:
    """Keys and texts such as n, off and 1e3 stay texts for every reader of YAML."""
    assert to_yaml({word: word}) == f"'{word}': '{word}'\n"


def test_no_aliases() -> None:
    """A value used twice is written twice."""
    shared = {"a": [1, 2]}
    assert to_yaml({"x": shared, "y2": shared}).count("a:") == 2
