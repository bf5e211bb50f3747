"""Write `trees.json`: the facts about the built-in kinds' fields, taken from real Kubernetes.

real server's /openapi/v3 ──► names, types, enums, required, merge keys ─┐
Go modules k8s.io/*       ──► which empty values are kept, always, never ┴─► trees.json

Run by hand when the Kubernetes version we compare with moves, and commit the result:

    python -m tools.kubernetes_trees --kubeconfig FILE --modules ~/go/pkg/mod/k8s.io

Only facts are taken: no descriptions. Defaults that merely restate a type's zero value are left
out, for they are not defaults. The OpenAPI document does not say whether `false` or `[]` sent by a
client is stored or vanishes; the types in Go do, by pointers and `omitempty`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUILTIN = Path(__file__).parents[1] / "src/boilerhouse/embedded/apiserver/builtin"
OUTPUT = BUILTIN / "trees.json"

_APIEXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Document -> the kinds we take from it. What they refer to comes along.
KINDS = {
    "api/v1": [
        f"io.k8s.api.core.v1.{kind}"
        for kind in (
            "ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolumeClaim",
            "Pod", "ResourceQuota", "Secret", "Service", "ServiceAccount",
        )
    ],
    "apis/apps/v1": ["io.k8s.api.apps.v1.StatefulSet"],
    "apis/coordination.k8s.io/v1": ["io.k8s.api.coordination.v1.Lease"],
    "apis/discovery.k8s.io/v1": ["io.k8s.api.discovery.v1.EndpointSlice"],
    "apis/networking.k8s.io/v1": ["io.k8s.api.networking.v1.NetworkPolicy"],
    "apis/policy/v1": ["io.k8s.api.policy.v1.PodDisruptionBudget"],
    "apis/apiextensions.k8s.io/v1": [f"{_APIEXTENSIONS}.CustomResourceDefinition"],
}  # fmt: skip
# Where in the Go modules a definition's package is.
SOURCES = {
    **{
        f"io.k8s.api.{group}.v1": f"api@*/{group}/v1/types.go"
        for group in ("core", "apps", "coordination", "discovery", "networking", "policy")
    },
    _META: "apimachinery@*/pkg/apis/meta/v1/types.go",
    _APIEXTENSIONS: "apiextensions-apiserver@*/pkg/apis/apiextensions/v1/types*.go",
}
# Prose; what is added per kind; what only server-side apply looks at.
_DROPPED = (
    "description", "x-kubernetes-group-version-kind", "x-kubernetes-unions",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--modules", required=True, type=Path, help="where the Go modules are")
    parser.add_argument("--kubectl", default="kubectl")
    arguments = parser.parse_args()

    def raw(path: str) -> Any:
        command = [arguments.kubectl, "--kubeconfig", arguments.kubeconfig, "get", "--raw", path]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    definitions: dict[str, Any] = {}
    for path, roots in KINDS.items():
        schemas = raw(f"/openapi/v3/{path}")["components"]["schemas"]
        definitions |= dict(_closure(schemas, roots))
    trees = {
        "version": raw("/version")["gitVersion"],
        "definitions": dict(sorted(definitions.items())),
        "empties": _empties(definitions, arguments.modules),
    }
    lines = json.dumps(trees, separators=(",", ":"), sort_keys=True)
    # One definition a line: a new Kubernetes version then makes a diff people can read.
    OUTPUT.write_text(re.sub(r'(?<=[{,])("io\.k8s\.[^"]+":)(?=\{)', r"\n\1", lines) + "\n")


def _closure(schemas: dict[str, Any], roots: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the roots and all they refer to, stripped to facts."""
    waiting, seen = list(roots), set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        tree = _stripped(schemas[name])
        waiting.extend(_references(tree))
        yield name, tree


def _stripped(tree: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in tree.items():
        if key in _DROPPED or (key == "default" and not value):
            continue
        if key == "properties":
            kept[key] = {name: _stripped(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            kept[key] = _stripped(value)
        elif key in ("allOf", "oneOf") and isinstance(value, list):
            kept[key] = [_stripped(child) for child in value]
        else:
            kept[key] = value
    if list(kept) == ["allOf"] and len(kept["allOf"]) == 1:
        return dict(kept["allOf"][0])  # a reference whose siblings were stripped
    return kept


def _references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if isinstance(tree.get("$ref"), str):
            yield tree["$ref"].rpartition("/")[2]
        for value in tree.values():
            yield from _references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _references(value)


_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?!struct)(\S+)", re.MULTILINE)
_FIELD = re.compile(r'^\t(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"', re.MULTILINE)
# Structs that JSON writes as one value, and what their empty value is written as.
_VALUES = {"Quantity": "always", "IntOrString": "always", "Time": "null", "MicroTime": "null"}


def _empties(definitions: dict[str, Any], modules: Path) -> dict[str, dict[str, str]]:
    """Say of each field what happens to an empty value. Unlisted: it vanishes.

    keep: what a client sends is stored, also when empty (pointers, lists without omitempty);
    always: written even when nobody sent it (structs, scalars without omitempty);
    null: likewise, as null (times).
    """
    result: dict[str, dict[str, str]] = {}
    for package, pattern in SOURCES.items():
        text = "\n".join(path.read_text() for path in sorted(modules.glob(pattern)))
        structs = dict(_STRUCT.findall(text))
        aliases = dict(_NAMED.findall(text))
        for name in structs:
            known = definitions.get(f"{package}.{name}", {}).get("properties")
            if known is None:
                continue
            rules = {
                field: rule
                for field, rule in _rules(name, structs, aliases)
                if rule and field in known
            }
            if rules:
                result[f"{package}.{name}"] = rules
    return result


def _rules(
    name: str, structs: dict[str, str], aliases: dict[str, str]
) -> Iterator[tuple[str, str]]:
    for _, written, tag in _FIELD.findall(structs[name]):
        field, _, options = tag.partition(",")
        if "inline" in options:
            inner = written.rpartition(".")[2].lstrip("*")
            if inner in structs:
                yield from _rules(inner, structs, aliases)
        else:
            yield field, _rule(written, options, aliases)


def _rule(written: str, options: str, aliases: dict[str, str]) -> str:
    omitted = "omitempty" in options
    if written.startswith("*"):
        return "keep"
    bare = written.rpartition(".")[2]
    resolved = aliases.get(bare, bare)
    if written.startswith(("[]", "map[")) or resolved.startswith(("[]", "map[")):
        return "" if omitted else "keep"
    if resolved in ("string", "bool", "int", "int32", "int64", "float64"):
        return "" if omitted else "always"
    if bare in ("UID", "NodeName"):
        return "" if omitted else "always"
    return "" if "omitzero" in options else _VALUES.get(bare, "always")


if __name__ == "__main__":
    main()
