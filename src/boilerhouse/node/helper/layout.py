"""Names of the helper's objects, and where things are in its container."""

from __future__ import annotations

from boilerhouse.core.names import GROUP

POD = "boilerhouse-snapshot-helper"
SECRET = "boilerhouse-snapshot-helper"  # noqa: S105  the name of the Secret
VOLUME_CLAIM = "boilerhouse-snapshots"

COMPONENT = f"{GROUP}/component"  # a label: which part of the product a Pod is, for policies
HELPER = "snapshot-helper"

TOKEN_DIR = "/run/boilerhouse-helper"  # noqa: S105  where the token is, not the token
TOKEN_FILE = f"{TOKEN_DIR}/token"
SNAPSHOTS_DIR = "/snapshots"

HEALTHZ = "/healthz"
TO_AGENT = "/agent"  # before the paths that go on to an agent
