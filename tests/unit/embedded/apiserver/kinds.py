"""Two small kinds that the tests of discovery and OpenAPI describe: a custom and a built-in one."""

from __future__ import annotations

from boilerhouse.embedded.apiserver.kind import Kind, ScalePaths
from boilerhouse.embedded.apiserver.schemas.schema import Schema

WIDGET = Kind(
    group="demo.dev",
    version="v1alpha1",
    kind="Widget",
    plural="widgets",
    singular="widget",
    namespaced=True,
    short_names=("wd",),
    categories=("all",),
    status=True,
    scale=ScalePaths(".spec.count", ".status.count"),
    custom=True,
    schema=Schema.compile(
        {
            "type": "object",
            "description": "A thing that is made.",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "description": "What is wanted.",
                    "properties": {"count": {"type": "integer", "description": "How many."}},
                },
                "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
            },
        }
    ),
)

_DEFINITIONS = {
    "demo.Part": {
        "type": "object",
        "properties": {"whole": {"$ref": "#/components/schemas/demo.Part"}},
    }
}
POD = Kind(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    subresources=("log", "eviction"),
    status=True,
    merge_keys={},
    schema=Schema.compile(
        {"type": "object", "properties": {"part": {"$ref": "#/components/schemas/demo.Part"}}},
        _DEFINITIONS,
    ),
)
DEFINITIONS = _DEFINITIONS
NAMESPACE = Kind(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    singular="namespace",
    namespaced=False,
    short_names=("ns",),
    schema=Schema.compile({"type": "object"}),
)
