"""A real, unmodified kubectl, pointed at one kubeconfig and at nothing of the user's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cluster.places import KUBERNETES, Places

from tests.absence import absent

# What the server warns of, and patches that kubectl could not compute as it wanted.
_WARNING = re.compile(r"^warning:", re.IGNORECASE | re.MULTILINE)


def binary() -> Path:
    """Return the kubectl that was built; skip, or fail under CI, without one."""
    path = Path(Places.user().binary("kubectl"))
    if not path.exists() and shutil.which("go") is None:
        absent(f"kubectl {KUBERNETES} needs the Go toolchain, which is not in PATH")
    if not path.exists():
        absent(f"kubectl {KUBERNETES} must be built first: run `python -m cluster build`")
    return path


@dataclass(frozen=True)
class Kubectl:
    """Runs kubectl with a home and a cache of its own, so that no run knows what another saw."""

    path: Path
    kubeconfig: Path
    home: Path

    def __call__(
        self, *arguments: str, stdin: object = None, fails: bool = False, **env: str
    ) -> str:
        """Return what it printed; `stdin` that is no text is written as YAML.

        A command that `fails` returns its error instead. A warning fails the test.
        """
        done = self.run(*arguments, stdin=stdin, **env)
        told = f"kubectl {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert (done.returncode != 0) == fails, told
        assert not _WARNING.search(done.stderr), told
        return done.stderr if fails else done.stdout

    def run(
        self, *arguments: str, stdin: object = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        text = stdin if stdin is None or isinstance(stdin, str) else yaml.safe_dump(stdin)
        return subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            env=self.environment(**env),
            timeout=60,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start one that goes on, such as a watch."""
        return subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, text=True, env=self.environment()
        )

    def json(self, *arguments: str) -> Any:
        return yaml.safe_load(self(*arguments, "-o", "json"))

    def command(self, *arguments: str) -> list[str]:
        where = ["--kubeconfig", str(self.kubeconfig)]
        return [str(self.path), *where, "--cache-dir", str(self.home / "cache"), *arguments]

    def environment(self, **env: str) -> dict[str, str]:
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], **env}
