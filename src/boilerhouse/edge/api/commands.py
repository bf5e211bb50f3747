"""Commands in instances: what is sent to the node, and what its answers mean.

command, env ─► argv ─► node ─► Result | ApiError ─► Ending | Problem

A program that is not there is the caller's news, not a failure of ours: it ends with the exit code
and the words that a shell would have for it. Nodes differ in how they say so; an instance that is
dead, or halted because its files are being saved, is a conflict, whatever the node calls it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from boilerhouse.edge.api.errors import Problem, bad_request, conflict
from boilerhouse.platform.kube.exec import CommandTimeout
from boilerhouse.platform.kube.kinds import Pod
from boilerhouse.platform.kube.status import ApiError, BadRequest, NotFound
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import Claim
from boilerhouse.tenancy.claims.reading.holdings import phase_of
from boilerhouse.tenancy.instances.pods import crashes
from boilerhouse.tenancy.instances.pods import instance as seen_of

NOT_FOUND = 127
NOT_EXECUTABLE = 126

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MISSING = ("executable file not found", "no such file or directory", "not found in $path")
_DENIED = ("permission denied", "exec format error", "is a directory")
_HALTED = "is halted"
_NO_CONTAINER = "container not found"
_DEAD = (_NO_CONTAINER, "is not running", "not running", "cannot exec in a stopped",
         "before it could be entered")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended."""

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False


def argv(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return what to run: Kubernetes has no environment for exec, so `env` sets it."""
    wrong = [name for name in env if not _ENV_NAME.fullmatch(name)]
    if wrong:
        raise bad_request(f"env: {', '.join(map(repr, wrong))} cannot name a variable")
    if not env:
        return list(command)
    return ["env", *(f"{name}={value}" for name, value in env.items()), *command]


def refuse_dead(pod: Pod, claim: Claim | None) -> None:
    """Raise 409 for an instance in which nothing can be run, `claim` being the one that has it."""
    name, phase = pod.metadata.name, pod.status.phase or "Pending"
    if pod.metadata.deletion_timestamp is not None:
        raise _dead(name, phase, "it is being deleted")
    if phase != "Running":
        why = pod.status.reason or pod.status.message
        raise _dead(name, phase, f"its phase is {phase}" + (f": {why}" if why else ""))
    if seen_of(pod).backing_off:
        raise _dead(name, phase, _not_running(pod, ""))
    if claim is not None and phase_of(claim) == ClaimPhase.RELEASING:
        # Halted, or about to be: a command would hang, and end with the instance.
        raise _halted(name, phase, "its files are being saved, and it goes then")


def ending_of(error: ApiError, program: str, pod: Pod) -> Ending:
    """Read an error of exec: an ending if the program was at fault, else raise what it means."""
    said = error.message.lower()
    if isinstance(error, CommandTimeout):
        raise error
    if error.status_code in (400, 404, 500) and any(words in said for words in _DEAD):
        why = _not_running(pod, error.message)
        raise _dead(pod.metadata.name, pod.status.phase, why) from error
    if _HALTED in said:
        why = (
            "its files are being saved or restored, or its disk is full and another command in it"
            " goes on writing"
        )
        raise _halted(pod.metadata.name, pod.status.phase, why) from error
    if any(words in said for words in _MISSING):
        return Ending(NOT_FOUND, stderr=f"{program}: command not found\n".encode())
    if any(words in said for words in _DENIED):
        return Ending(NOT_EXECUTABLE, stderr=f"{program}: cannot execute\n".encode())
    if isinstance(error, NotFound | BadRequest):
        raise _dead(pod.metadata.name, pod.status.phase, error.message) from error
    raise error


def _not_running(pod: Pod, said: str) -> str:
    """Say why there is no program to run anything beside: nodes say only that there is none."""
    crashed = crashes(pod)
    if crashed:
        return (
            f"its program {crashed}, and is started again after a back-off; see"
            f" `boilerhouse logs {pod.metadata.name} --previous`"
        )
    if not said or _NO_CONTAINER in said.lower():
        return "its program does not run now, and is started again"
    return said


def _halted(name: str, phase: str, why: str) -> Problem:
    return conflict(
        "InstanceHalted",
        f"nothing can be run in instance {name!r} now: {why}. Claim, and use what the answer names",
        {"instance": name, "phase": phase},
    )


def _dead(name: str, phase: str, why: str) -> Problem:
    return conflict(
        "InstanceNotRunning",
        f"nothing can be run in instance {name!r}: {why}",
        {"instance": name, "phase": phase},
    )
