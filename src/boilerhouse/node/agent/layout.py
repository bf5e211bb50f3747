"""Where the agent finds things in its container. `tenancy/instances/build.py` mounts them there."""

from __future__ import annotations

IDENTITY_DIR = "/run/boilerhouse"  # a tmpfs; the tenant's container has it read-only
TOKEN_FILE = "/run/boilerhouse-agent/token"  # noqa: S105  where the token is, not the token
STATE_DIR = "/var/lib/boilerhouse-agent"  # a volume that only the agent mounts
RESTORE_VARIABLE = "BOILERHOUSE_RESTORE"  # set: the tenant starts after a restore, not before
DISK_VARIABLE = "BOILERHOUSE_DISK_GB"  # the workload's `diskGb`
OVERLAY_ROOT = "/overlay"  # the instance's /workspace is /overlay/workspace here
