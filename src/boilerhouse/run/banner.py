"""What `up` prints once it serves: where everything is, and commands that work when copied."""

from __future__ import annotations

import ipaddress
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from boilerhouse.core.environment import KEY_VARIABLE, URL_VARIABLE
from boilerhouse.core.version import version


@dataclass(frozen=True, slots=True)
class Served:
    """Where this process is reached. `host` is what was bound, `api` a URL that works here."""

    host: str
    api: str
    key: bool  # callers need one
    kube: str
    socket: Path
    kubeconfig: Path
    directory: Path
    notes: tuple[str, ...] = ()  # what this machine lacks, in sentences


def banner(served: Served, command: str) -> str:
    """Return the text; `command` is how this program is called."""
    about = [
        "and at every other address of this machine" if _is_every(served.host) else "",
        f"callers need the key that is in {KEY_VARIABLE}" if served.key else "",
    ]
    notes = "".join(f"\n                   {line}" for line in about if line)
    key = f"\n  export {KEY_VARIABLE}=…   # the one it was started with" if served.key else ""
    lacking = "".join(f"\nNote: {words}\n" for words in served.notes)
    return f"""\
Boilerhouse {version()} is up.

  API              {served.api}{notes}
  Kubernetes API   {served.kube}
  also on          {served.socket}
  kubeconfig       {served.kubeconfig}

In another terminal:

  export KUBECONFIG={shlex.quote(str(served.kubeconfig))}
  export {URL_VARIABLE}={served.api}{key}
  {command} get workloads
  kubectl get bhw,bhp,bhc,bht
{lacking}
Stop it with Ctrl-C; what is stored stays in {served.directory}.
"""


def own_command() -> str:
    """Return how this program is called from a shell: by its name only if the shell finds it."""
    if shutil.which("boilerhouse") is not None:
        return "boilerhouse"
    called = Path(sys.argv[0])
    if called.name == "boilerhouse" and os.access(called, os.X_OK):
        return shlex.quote(str(called.absolute()))
    return f"{shlex.quote(sys.executable)} -m boilerhouse.main"


def _is_every(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
