"""Where things are on the volume, and what may be asked for.

/snapshots/<tenant>/<workload>.tar.gz                       current: a hard link to its version
/snapshots/.v/<tenant>/<workload>/<seq>-<digest>.tar.gz     a version
                                  <seq>-<digest>.json       its manifest
                                  <seq>-<digest>.keep       there: it is never pruned
/snapshots/.tmp/                                            unfinished: emptied at every start
/snapshots/.lock                                            held while a helper runs

A tenant's id is a name here as it stands. No id begins with a dot, so ours never meet theirs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from boilerhouse.core.names import NAME_LIMIT, TENANT_RULE, is_tenant_id
from boilerhouse.core.patterns import DNS_LABEL
from boilerhouse.node.helper.layout import SNAPSHOTS_DIR
from boilerhouse.node.helper.store.manifest import Stored
from boilerhouse.platform.rpc.refusal import Refused

VERSIONS = ".v"
UNFINISHED = ".tmp"
LOCK = ".lock"

ARCHIVE = ".tar.gz"
MANIFEST = ".json"
KEPT = ".keep"

_WORKLOAD = re.compile(DNS_LABEL)
_VERSION_FILE = re.compile(r"([1-9][0-9]{0,11})-([0-9a-f]{64})(\.tar\.gz|\.json|\.keep)\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class Place(NamedTuple):
    """One tenant's workload, checked: made by `place` alone."""

    tenant: str
    workload: str


class VersionFile(NamedTuple):
    """The name of a version's file, in its parts."""

    seq: int
    digest: str
    ending: str


def place(tenant: str, workload: str) -> Place:
    """Check who is meant; `Refused` if either cannot be a name."""
    if not is_tenant_id(tenant):
        raise Refused(400, "bad-tenant", TENANT_RULE)
    if not is_workload(workload):
        raise Refused(400, "bad-workload", "a workload's name is a DNS label")
    return Place(tenant, workload)


def is_workload(name: str) -> bool:
    return len(name) <= NAME_LIMIT and _WORKLOAD.match(name) is not None


def is_digest(text: str) -> bool:
    return _DIGEST.match(text) is not None


def version_file(name: str) -> VersionFile | None:
    """Read the name of a version's file; None if it is none."""
    found = _VERSION_FILE.match(name)
    return None if found is None else VersionFile(int(found[1]), found[2], found[3])


def workload_of(name: str) -> str | None:
    """Return whose current version a file in a tenant's directory is."""
    workload = name.removesuffix(ARCHIVE)
    return workload if name.endswith(ARCHIVE) and is_workload(workload) else None


def shown(where: Place, stored: Stored, current: bool) -> str:
    """Return a version's path, as people are told it."""
    if current:
        return f"{SNAPSHOTS_DIR}/{where.tenant}/{where.workload}{ARCHIVE}"
    return f"{SNAPSHOTS_DIR}/{VERSIONS}/{where.tenant}/{where.workload}/{stored.stem}{ARCHIVE}"
