"""Where the server's key for claims' tokens is kept: a file on one machine, a Secret on a cluster.

first start ─► random bytes ─► kept ─► every later start, every replica

Losing it costs nothing but new tokens: instances get theirs again with their identity.
"""

from __future__ import annotations

import base64
import contextlib
import os
from pathlib import Path

from boilerhouse.platform.files.durable import write_file
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.resources import SECRETS
from boilerhouse.platform.kube.status import AlreadyExists, NotFound

SECRET = "boilerhouse-token-key"  # noqa: S105  the name, not the value
FILE = "token.key"
KEY_BYTES = 32


def in_directory(directory: Path) -> bytes:
    """Return the key kept in a file that only its owner can read, made if it is not there."""
    path = directory / FILE
    with contextlib.suppress(FileNotFoundError):
        key = path.read_bytes()
        if len(key) >= KEY_BYTES:
            return key
    key = os.urandom(KEY_BYTES)
    write_file(path, key)  # whole or not at all: half a key would lock out every instance
    return key


async def in_secret(client: Client) -> bytes:
    """Return the key kept in a Secret; of several processes that make it, the first one wins."""
    for _ in range(3):
        try:
            return (await client.get(SECRETS, SECRET)).data["key"]
        except NotFound:
            pass
        data = {"key": base64.b64encode(os.urandom(KEY_BYTES)).decode()}
        with contextlib.suppress(AlreadyExists):
            return (
                await client.create(SECRETS, {"metadata": {"name": SECRET}, "data": data})
            ).data["key"]
    return (await client.get(SECRETS, SECRET)).data["key"]
