"""Which container of a Pod a request means.

?container=… | the annotation | the only one ─► its name, or the real server's refusal
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from boilerhouse.platform.kube.status import BadRequest
from boilerhouse.platform.kube.wire import Request

Body = Mapping[str, Any]
DEFAULT = "kubectl.kubernetes.io/default-container"


def flag(request: Request, name: str) -> bool:
    """Whether a parameter of a query says yes."""
    return request.param(name) in ("true", "1")


def chosen(pod: Body, asked: str) -> str:
    """Return the name of the container that is meant."""
    name = pod["metadata"]["name"]
    main = [one["name"] for one in pod["spec"].get("containers", ())]
    initial = [one["name"] for one in pod["spec"].get("initContainers", ())]
    if asked:
        if asked in main or asked in initial:
            return asked
        raise BadRequest(f"container {asked} is not valid for pod {name}")
    preferred = pod["metadata"].get("annotations", {}).get(DEFAULT)
    if preferred in main:
        return str(preferred)
    if len(main) == 1:
        return str(main[0])
    words = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
    if initial:
        words += f" or one of the init containers: [{' '.join(initial)}]"
    raise BadRequest(words)
