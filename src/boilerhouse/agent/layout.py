"""Where the agent finds things in its container. `instances/build.py` mounts them there."""

from __future__ import annotations

IDENTITY_DIR = "/run/boilerhouse"  # a tmpfs; the tenant's container has it read-only
TOKEN_FILE = "/run/boilerhouse-agent/token"  # noqa: S105  where the token is, not the token
OVERLAY_ROOT = "/overlay"  # the instance's /workspace is /overlay/workspace here
