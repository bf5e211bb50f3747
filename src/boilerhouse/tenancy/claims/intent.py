"""The intent: which one Pod a claim may have, written on the claim before anything is done.

Several processes may work on one claim at the same time (API replicas, the operator, an operator
that should be dead and is not), each with its own idea of the world. Without more, two of them
would choose two Pods. So choosing is one compare-and-swap on the Claim, and everything after it is
carried out by everybody alike:

    no intent ──CAS──► "<name>/<uid>"                  a warm Pod that was seen
              └─CAS──► "<name>/" ──create──CAS──► "<name>/<uid>"   a cold Pod, named before it is

* Whoever sees an intent binds exactly that Pod, by a patch that fails unless the Pod is as it was
  seen, with the claim's reference (`ClaimRef`) as a fence that is never taken off again.
* A cold Pod carries that fence from birth. Once somebody has seen it its UID is written down too
  (pinned), so a late create of the same name is another Pod.
* To choose again while the named Pod is still nobody's, that Pod is deleted first (by UID and
  resourceVersion): the patch of somebody who still sleeps on the old intent then fails. One that
  is gone, or another claim's, needs no deletion. One that carries this claim already is given up
  the other way round: the CAS first, which makes it a stray that cannot become Active, then the
  deletion. (Deleted first, somebody else could make it Active just before the deletion arrives.)
* An intent never returns to a Pod that was given up. The names of cold Pods do not repeat, because
  the claim's own resourceVersion is in them, and the CAS succeeds at one version once. A claim that
  is born with its intent has no version yet: then it is a random number.
* Only the Pod that is named may become Active. Any other that carries the claim's reference is a
  stray (a late create), never handed out, and deleted by every pass that sees it.
"""

from __future__ import annotations

from msgspec import Struct

from boilerhouse.core.names import cold_pod_name


class Intent(Struct, frozen=True):
    """The Pod that a claim may have; without a `uid` it is cold and was not seen yet."""

    pod: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.pod}/{self.uid}"

    @classmethod
    def parse(cls, text: str) -> Intent | None:
        """Read the annotation; None if there is none."""
        name, _, uid = text.partition("/")
        return cls(name, uid) if name else None


def cold(tenant: str, workload: str, *once: str) -> Intent:
    """Return the intent to make a new Pod; `once` is never the same for two of them."""
    return Intent(cold_pod_name(tenant, workload, *once))
