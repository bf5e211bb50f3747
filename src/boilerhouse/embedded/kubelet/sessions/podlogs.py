"""`pods/log`: a container's log, of this life or the one before, as the query asks.

query ─► LogQuery ─► read_log ─► Stream of text
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

from boilerhouse.core.clock import Clock, parse_time
from boilerhouse.embedded.fields.numbers import whole_number
from boilerhouse.embedded.kubelet.containers.launch import last_attempt, log_path
from boilerhouse.embedded.kubelet.logs.log import LogFile
from boilerhouse.embedded.kubelet.logs.logread import LogQuery, read_log
from boilerhouse.embedded.kubelet.objects.status import Waiting
from boilerhouse.embedded.kubelet.pod.pod import PodWorker
from boilerhouse.embedded.kubelet.sessions.choosing import chosen, flag
from boilerhouse.platform.kube.status import BadRequest
from boilerhouse.platform.kube.wire import Request, Stream

Body = Mapping[str, Any]
_TEXT = {"content-type": "text/plain"}


def logs(pod: Body, worker: PodWorker | None, request: Request, clock: Clock) -> Stream:
    """Answer for the log of a container."""
    query = log_query(request, clock)
    name = chosen(pod, request.param("container"))
    who = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
    attempt = None if worker is None else last_attempt(worker.directory, name)
    if worker is None or attempt is None:
        raise BadRequest(f"{who} is waiting to start: {_why(worker, name)}")
    live = _live(worker, name)
    if flag(request, "previous"):
        attempt, live = _previous(worker, name, attempt), None
        path = log_path(worker.directory, name, attempt)
        if not path.exists():
            raise BadRequest(
                f'previous terminated container "{name}" in pod '
                f'"{pod["metadata"]["name"]}" not found'
            )
    else:
        path = log_path(worker.directory, name, attempt)
    following = live if flag(request, "follow") else None
    return Stream(200, _text(read_log(path, query, following)), _TEXT)


def log_query(request: Request, clock: Clock) -> LogQuery:
    """Read the options; what cannot be done is refused by name."""
    stream = request.param("stream", "All")
    if stream != "All":
        raise BadRequest(f"stream={stream} is not supported here: stdout and stderr are one log")
    since = None
    if request.param("sinceTime"):
        if request.param("sinceSeconds"):
            raise BadRequest("at most one of `sinceTime` or `sinceSeconds` may be specified")
        try:
            since = parse_time(request.param("sinceTime"))
        except ValueError as error:
            raise BadRequest(f"sinceTime: {error}") from None
    elif (seconds := _number(request, "sinceSeconds", 1)) is not None:
        since = clock.now() - timedelta(seconds=seconds)
    return LogQuery(
        tail=_number(request, "tailLines", 0),
        since=since,
        timestamps=flag(request, "timestamps"),
        limit_bytes=_number(request, "limitBytes", 1),
    )


def _number(request: Request, name: str, least: int) -> int | None:
    text = request.param(name)
    if not text:
        return None
    try:
        number = whole_number(text)
    except ValueError as error:
        raise BadRequest(f'{name}: parsing "{text}": {error}') from None
    if number < least:
        raise BadRequest(f"{name}: must be at least {least}")
    return min(number, 10**9)


def _previous(worker: PodWorker, name: str, newest: int) -> int:
    """Return which life `lastState` tells of: of a container that waits for its next, the newest.

    As kubelet sees it: what ended is the previous one as soon as the next is waited for.
    """
    for one in worker.facts.containers:
        if one.name == name and isinstance(one.state, Waiting) and one.last is not None:
            return min(newest, one.restart_count)
    return newest - 1


def _live(worker: PodWorker, name: str) -> LogFile | None:
    for loop in worker.loops:
        if loop.facts.name == name and loop.launched is not None:
            return loop.launched.log.file
    return None


def _why(worker: PodWorker | None, name: str) -> str:
    if worker is not None:
        for one in worker.facts.containers:
            if one.name == name:
                return getattr(one.state, "reason", "ContainerCreating")
    return "ContainerCreating"


async def _text(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for block in blocks:
        yield block
