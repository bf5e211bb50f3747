"""The lifecycle of a Claim (S0), with the edges S0 leaves open.

Those are: a claim deleted before it became Active or while in Error; the ways out of ReleaseFailed
and out of Error. An instance that is lost or destroyed takes the same edge as a release, so that
every claim ends in Released, whatever became of its Pod.
"""

from __future__ import annotations

from enum import StrEnum

from boilerhouse.core.machine import Edge, Machine


class ClaimPhase(StrEnum):
    PENDING = "Pending"
    ACTIVE = "Active"
    RELEASING = "Releasing"
    RELEASED = "Released"
    RELEASE_FAILED = "ReleaseFailed"
    ERROR = "Error"


_P = ClaimPhase

CLAIM = Machine(
    name="Claim",
    meanings={
        _P.PENDING: "An instance is being chosen or started.",
        _P.ACTIVE: "The instance runs, is ready and belongs to the tenant.",
        _P.RELEASING: "The tenant's files are being saved and the instance is being removed.",
        _P.RELEASED: "The files are saved and the instance is gone.",
        _P.RELEASE_FAILED: "The files could not be saved; instance and files are kept.",
        _P.ERROR: "The claim cannot be met for now; detail says why.",
    },
    initial=_P.PENDING,
    edges=(
        Edge(_P.PENDING, _P.ACTIVE, "an instance is bound and ready, and its endpoint is known"),
        Edge(
            _P.PENDING,
            _P.ERROR,
            "the workload is missing or in Error, a quota refuses the instance,"
            " one step keeps failing, or the tenant's id cannot be one",
        ),
        Edge(_P.PENDING, _P.RELEASING, "deleted before it became Active"),
        Edge(
            _P.ACTIVE,
            _P.RELEASING,
            "released or deleted, idle for too long, or the instance was lost or destroyed;"
            " detail says which",
        ),
        Edge(_P.RELEASING, _P.RELEASED, "the files are safely stored and the instance is gone"),
        Edge(_P.RELEASING, _P.RELEASE_FAILED, "the files could not be saved in several tries"),
        Edge(
            _P.RELEASE_FAILED,
            _P.RELEASING,
            "another try, by itself after a while or because someone asked, or a forced release",
        ),
        Edge(
            _P.RELEASE_FAILED,
            _P.ACTIVE,
            "claimed again while the instance still lives and the claim is not being deleted",
        ),
        Edge(_P.ERROR, _P.PENDING, "the step that failed now succeeds, or the tenant claims again"),
        Edge(_P.ERROR, _P.RELEASING, "deleted"),
    ),
)
