"""The kubeconfig of the embedded API: how kubectl and every other client find and trust it.

address + authority + token ──► DIR/kubeconfig (0600)

It also remembers the port, so that a restart listens where copies of the file expect it.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path

from boilerhouse.platform.files.durable import write_file

NAME = "boilerhouse"


def render(server: str, ca: bytes, token: str, namespace: str) -> str:
    """Write the file's text: one cluster, one user, one context, all of the same name."""
    return f"""\
# Written by `boilerhouse up`; it is written anew when the address or the authority changes.
apiVersion: v1
kind: Config
clusters:
- name: {NAME}
  cluster:
    server: {server}
    certificate-authority-data: {base64.b64encode(ca).decode()}
users:
- name: {NAME}
  user:
    token: {token}
contexts:
- name: {NAME}
  context:
    cluster: {NAME}
    user: {NAME}
    namespace: {namespace}
current-context: {NAME}
"""


def write(path: Path, server: str, ca: bytes, token: str, namespace: str) -> None:
    """Write the kubeconfig; leave the file alone if it says the same already."""
    text = render(server, ca, token, namespace)
    try:
        if path.read_text(encoding="utf-8") == text and not path.stat().st_mode & 0o077:
            return
    except (FileNotFoundError, UnicodeDecodeError):
        pass  # absent, or not a text at all: written below
    write_file(path, text.encode())


def kept_port(path: Path) -> int | None:
    """Return the port that the kubeconfig of an earlier run names."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    found = re.search(r"^ *server: https://\S+:(\d{1,5})$", text, re.MULTILINE)
    return int(found[1]) if found and 0 < int(found[1]) < 65536 else None
