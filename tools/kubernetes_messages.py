"""Write `messages.json`: how the built-in kinds look as protobuf, taken from real Kubernetes.

Go modules k8s.io/*/generated.proto ──► field numbers, names, types ──► messages.json

Run by hand when the Kubernetes version we compare with moves, and commit the result:

    python -m tools.kubernetes_messages --modules ~/go/pkg/mod/k8s.io

Only facts are taken. A field that is no property of its JSON form is written inline there: its
name is left empty.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tools.kubernetes_trees import BUILTIN

TREES = BUILTIN / "trees.json"
OUTPUT = BUILTIN / "messages.json"

_SOURCES = {
    **{
        f"io.k8s.api.{group}.v1": f"api@*/{group}/v1/generated.proto"
        for group in (
            "core", "apps", "autoscaling", "coordination", "discovery", "networking", "policy",
        )
    },
    "io.k8s.apimachinery.pkg.apis.meta.v1": "apimachinery@*/pkg/apis/meta/v1/generated.proto",
    "io.k8s.apimachinery.pkg.api.resource": "apimachinery@*/pkg/api/resource/generated.proto",
    "io.k8s.apimachinery.pkg.util.intstr": "apimachinery@*/pkg/util/intstr/generated.proto",
}  # fmt: skip
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Sent by clients, but no kinds of their own.
_ALSO = (
    f"{_META}.DeleteOptions",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.autoscaling.v1.Scale",
)
_SCALARS = ("string", "bytes", "bool", "int32", "int64", "double")

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(
    r"^  (?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE
)

Message = dict[str, list[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--modules", required=True, type=Path, help="where the Go modules are")
    modules = parser.parse_args().modules.expanduser()
    known: dict[str, Message] = {}
    for package, pattern in _SOURCES.items():
        (path,) = sorted(modules.glob(pattern))[-1:]
        known |= _messages(package, path.read_text())
    definitions = json.loads(TREES.read_text())["definitions"]
    kinds = [name for name, tree in definitions.items() if _is_kind(tree) and name in known]
    wanted: dict[str, Message] = {}
    waiting = [*kinds, *_ALSO]
    while waiting:
        name = waiting.pop()
        if name in wanted:
            continue
        wanted[name] = message = known[name]
        properties = definitions.get(name, {}).get("properties")
        for field in message.values():
            if field[1] in _SCALARS:
                continue
            if properties is not None and field[0] not in properties:
                field[0] = ""
            waiting.append(field[1])
    OUTPUT.write_text(json.dumps(dict(sorted(wanted.items())), separators=(",", ":")) + "\n")


def _is_kind(tree: dict[str, Any]) -> bool:
    return {"apiVersion", "kind", "metadata"} <= set(tree.get("properties", ()))


def _messages(package: str, text: str) -> dict[str, Message]:
    """Return each message as field number -> [name, type, "" | "repeated" | "map"]."""
    return {
        f"{package}.{name}": {
            number: [field, _type(package, single or value), _how(label)]
            for label, single, value, field, number in _FIELD.findall(body)
        }
        for name, body in _MESSAGE.findall(text)
    }


def _how(label: str) -> str:
    return {"optional": "", "repeated": "repeated"}.get(label, "map")


def _type(package: str, name: str) -> str:
    if name in _SCALARS:
        return name
    if name.startswith(".k8s.io."):
        return "io.k8s." + name.removeprefix(".k8s.io.")
    return name if "." in name else f"{package}.{name}"


if __name__ == "__main__":
    main()
