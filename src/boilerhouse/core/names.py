"""Names: the group, every label and annotation key, tenant ids, and names derived from them.

A tenant id is nearly free text; Kubernetes names and labels are not. What is derived from an id is
made of a slug, for people, and a hash of the whole, which alone tells two ids apart.

    tenant id ─► label_value()                  may repeat: look-ups compare the id itself
    (tenant id, workload) ─► claim_name(), claim_lease_name()   never the same for two pairs
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

GROUP = "boilerhouse.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
NAMESPACE = "boilerhouse"  # unless another is asked for

# Labels.
MANAGED = f"{GROUP}/managed"  # "true" on every instance, and on nothing else
WORKLOAD = f"{GROUP}/workload"
TENANT = f"{GROUP}/tenant"  # label_value() of the id; only on claimed Pods and their Claim
POOL = f"{GROUP}/pool"  # only on warm Pods
POOL_STATUS = f"{GROUP}/pool-status"  # WARMING or READY; only on warm Pods
WARMING = "warming"
READY = "ready"
TEMPLATE = f"{GROUP}/template"  # on every instance: hash of the blueprint it was built from
NETWORK = f"{GROUP}/network"  # on every instance: what it may reach, for policies and the kubelet
AGENT = f"{GROUP}/agent"  # "true" on the Secret of an instance's agent

# Annotations.
TENANT_ID = f"{GROUP}/tenant-id"  # the id itself, where a label can only hold label_value()
CLAIM = f"{GROUP}/claim"  # on a Pod: "<claim's name>/<claim's uid>", who has it, for ever
SOURCE = f"{GROUP}/source"  # on a Pod: "pool" or "cold", how it came to be
PORTS = f"{GROUP}/ports"  # on a Pod: "<guest>:<reached at>,…" if a node had to choose other ports
LAST_ACTIVITY = f"{GROUP}/last-activity"  # on a Claim: when the tenant last did something
POD = f"{GROUP}/pod"  # on a Claim: "<name>/<uid>", the one Pod it may have (intent.py)
RELEASE = f"{GROUP}/release"  # on a Claim: the user wants it released
# On a Claim whose release failed; the first two name the round (epochs.py) that they mean.
CLAIMED_AGAIN = f"{GROUP}/claimed-again"  # the tenant wants its instance back
RELEASE_RETRY = f"{GROUP}/release-retry"  # try again now
RELEASE_FORCE = f"{GROUP}/release-force"  # give up what could not be saved
RESTORE_PREVIOUS = f"{GROUP}/restore-previous"  # on a Claim: "true", an older version will do
RESTORED = f"{GROUP}/restored"  # on a Pod: "<digest>/<container before>", whose files are in it

FINALIZER = f"{GROUP}/cleanup"

# The snapshot helper and the agent listen here in every Pod network: no workload may.
HELPER_PORT = 7710
AGENT_PORT = 7711

_AGENT_PREFIX = "agent-"

KEPT = 4096  # answers about names that are asked for again and again
NAME_LIMIT = 63  # of a DNS label and of a label value alike

TENANT_RULE = (
    "a tenant id has 1 to 128 printable characters and at most 200 bytes as UTF-8 in normal form"
    " NFC, contains neither / nor \\, does not start with a dot and does not end with a dot or a"
    " space"
)


def is_tenant_id(text: str) -> bool:
    """Whether a text may name a tenant; TENANT_RULE says the rule to people.

    The id is a path component under /snapshots as it stands, hence slashes, dots, bytes and the
    normal form; and it is shown to people, hence printable.
    """
    return 1 <= len(text) <= 128 and _can_be_path_and_shown(text)


@lru_cache(maxsize=KEPT)  # asked at each door that an id passes; only of short texts
def _can_be_path_and_shown(text: str) -> bool:
    return (
        text.isprintable()  # also no surrogates, so it can be encoded below
        and len(text.encode()) <= 200
        and unicodedata.is_normalized("NFC", text)
        and not any(slash in text for slash in "/\\")
        and not text.startswith(".")
        and not text.endswith((".", " "))
    )


# The same, as far as a regular expression can say it: what the API server checks.
TENANT_PATTERN = (
    r"^([^. /\\\x00-\x1f\x7f-\x9f]"
    r"|[^./\\\x00-\x1f\x7f-\x9f]"
    r"[^/\\\x00-\x1f\x7f-\x9f]{0,126}[^. /\\\x00-\x1f\x7f-\x9f])\Z"
)

_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_LOOKS_HASHED = re.compile(r"-[0-9a-f]{10}\Z")
_NOT_SLUG = re.compile(r"[^a-z0-9]+")


def slug(text: str, limit: int) -> str:
    """Return a readable reminder of a text: lower case, digits and single dashes, maybe empty."""
    return _NOT_SLUG.sub("-", text.lower()).strip("-")[:limit].rstrip("-")


def label_value(tenant: str) -> str:
    """Return the value of the TENANT label: the id itself where Kubernetes allows it.

    An id that looks like a slug with its hash is hashed as well, so no id can be chosen to carry
    another one's label. Two ids may still share a label; compare the id itself.
    """
    if (
        len(tenant) <= NAME_LIMIT
        and _LABEL_VALUE.fullmatch(tenant)
        and not _LOOKS_HASHED.search(tenant)
    ):
        return tenant
    return _with_hash(tenant, _digest(tenant)[:10], NAME_LIMIT)


@lru_cache(maxsize=KEPT)  # a pass over a claim asks for it several times
def claim_name(tenant: str, workload: str) -> str:
    """Return the canonical name of the Claim: creating it is the lock on (tenant, workload)."""
    digest = claim_hash(tenant, workload)
    return "claim-" + _with_hash(f"{tenant}-{workload}", digest, NAME_LIMIT - len("claim-"))


def claim_lease_name(tenant: str, workload: str) -> str:
    """Return the name of the Lease that a Claim under another name must take first."""
    return f"t-{claim_hash(tenant, workload)}"


def warm_pod_name(workload: str, *parts: str) -> str:
    """Return a name for a warm instance; `parts` tells it from the others."""
    return _pod_name(workload, parts)


def cold_pod_name(tenant: str, workload: str, *parts: str) -> str:
    """Return a name for an instance that is made for one tenant."""
    return _pod_name(f"{slug(tenant, 20) or 'x'}-{workload}", parts)


def agent_secret_name(pod: str) -> str:
    """Return the name of the Secret with the token of an instance's agent."""
    return f"{_AGENT_PREFIX}{pod}"


def pod_of_agent_secret(secret: str) -> str:
    """Return the name of the instance whose agent's token is in a Secret."""
    return secret.removeprefix(_AGENT_PREFIX)


@lru_cache(maxsize=KEPT)  # for the name of the Claim, and for that of the Lease
def claim_hash(tenant: str, workload: str) -> str:
    """Return what tells one (tenant, workload) from every other: 80 bits as hex."""
    return _digest(tenant, workload)[:20]


def _pod_name(readable: str, parts: tuple[str, ...]) -> str:
    # A Pod's name becomes its host name, which is a DNS label; and "agent-" must fit before it.
    room = NAME_LIMIT - len(_AGENT_PREFIX) - len("inst--") - 6
    return f"inst-{slug(readable, room) or 'x'}-{_digest(*parts)[:6]}"


def _with_hash(text: str, digest: str, limit: int) -> str:
    # Never the bare hash: an id may look like one, but no id keeps an ending of dash and hash.
    readable = slug(text, limit - len(digest) - 1) or "x"
    return f"{readable}-{digest}"


def _digest(*parts: str) -> str:
    # Lengths go in first, so that ("a-b", "c") and ("a", "b-c") never spell the same bytes.
    # surrogatepass: a hostile text must get a name too, if only to be refused under it.
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    framed = b"".join(b"%d:%s" % (len(part), part) for part in encoded)
    return hashlib.sha256(framed).hexdigest()
