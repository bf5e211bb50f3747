"""Tests that failed first and passed at their second try: counted, bounded, and kept.

FLAKY n: names ─► the run's last line ─► the same with date and commit in a file outside the clone
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

MOST = 5  # of one run; with more of them it has failed
VARIABLE = "BOILERHOUSE_FLAKY_FILE"


def line(names: Sequence[str]) -> str:
    return f"FLAKY {len(names)}: {', '.join(sorted(names))}" if names else "FLAKY 0"


def keep(names: Sequence[str]) -> None:
    """Append a run to the file that outlives the clone, also a run without any: it is a rate."""
    path = kept()
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with path.open("a") as file:
        file.write(f"{now} {_commit()} {line(names)}\n")


def kept() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "boilerhouse" / "flaky.txt"


def _commit() -> str:
    git = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(git, capture_output=True, text=True)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"
