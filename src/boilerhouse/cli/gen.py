"""`boilerhouse gen`: writes the files that `catalogue.generated()` describes, or compares them."""

from __future__ import annotations

from pathlib import Path

import typer

from boilerhouse.operator import catalogue


def run(root: Path, *, check: bool) -> int:
    """Write every generated file below `root`; with `check`, name the stale ones and return 1."""
    if not (root / "pyproject.toml").is_file():
        typer.echo(f"{root.resolve()} is not the repository: run this from its root", err=True)
        return 2
    stale = {
        path: text for path, text in catalogue.generated().items() if _content(root / path) != text
    }
    if check:
        for path in stale:
            typer.echo(f"stale: {path}", err=True)
        if stale:
            typer.echo("run `make gen` and commit the result", err=True)
        return 1 if stale else 0
    for path, text in stale.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        typer.echo(f"wrote {path}")
    return 0


def _content(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
