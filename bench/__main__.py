"""`make bench`: every measurement in one run, as a table; raw numbers are kept beside it.

    python -m bench [decode|store|api|claims|archives|hibernation|cluster …]

Budgets are shown, not asserted: these are figures of one machine at one moment. Yardsticks of the
same run (a bare fsync, a request that does nothing) say how much of a figure is the machine's.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from bench import api, archives, claims, cluster_claims, decode, hibernation, store
from bench.figures import Figure
from boilerhouse.run.garbage import collect_seldom

RESULTS = Path(__file__).parent / "results"
SUITES = ("decode", "store", "api", "claims", "archives", "hibernation", "cluster")


def _run(figures: Coroutine[None, None, list[Figure]]) -> list[Figure]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(figures)


def measure(suite: str, directory: Path) -> list[Figure]:
    match suite:
        case "decode":
            return decode.figures()
        case "store":
            collect_seldom()  # as `up` does
            return _run(store.figures(directory))
        case "api":
            return _run(api.figures(directory))
        case "claims":
            return _run(claims.figures(directory))
        case "archives":
            return archives.figures(directory)
        case "hibernation":
            return _run(hibernation.figures(directory))
        case "cluster":
            if not cluster_claims.available():
                why = "not measured: run `python -m cluster build` first"
                return [Figure("claim: pool, kube-apiserver", why)]
            return _run(cluster_claims.figures(directory))
        case _:
            sys.exit(f"bench: no suite {suite!r}; there are {', '.join(SUITES)}")


def main(wanted: list[str]) -> None:
    table = Table("what", "measured", "budget", "")
    kept = {}
    for suite in wanted or SUITES:
        with tempfile.TemporaryDirectory(prefix="boilerhouse-bench-") as directory:
            figures = measure(suite, Path(directory))
        for figure in figures:
            verdict = {True: "met", False: "MISSED", None: ""}[figure.within]
            table.add_row(figure.what, figure.value, figure.budget, verdict)
        table.add_section()
        kept[suite] = [figure._asdict() for figure in figures]
    console = Console()
    console.print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.json"
    path.write_text(json.dumps(kept, indent=1))
    console.print(f"raw numbers: {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
