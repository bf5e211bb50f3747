"""Where `up` keeps its data when it is not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from boilerhouse.embedded.apiserver.storage.store import StoreFailed
from boilerhouse.run.up import default_directory


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_data_goes_nowhere(monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    """A home that is none is refused in a sentence, not taken for the current directory."""
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    with pytest.raises(StoreFailed, match="set HOME, or use --data"):
        default_directory()


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("/somewhere", "/somewhere/boilerhouse"),
        ("", "/home/me/.local/share/boilerhouse"),
        ("relative", "/home/me/.local/share/boilerhouse"),
    ],
)
def test_data_goes_where_xdg_says(
    monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    """An absolute XDG_DATA_HOME counts; anything else is as if it were not set."""
    monkeypatch.setenv("XDG_DATA_HOME", variable)
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory() == Path(expected)
