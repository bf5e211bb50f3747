"""Every kind the server serves now: built-in ones and those of installed CRDs, live.

builtin.kinds() ─► Registry ◄─ definitions.py (CRDs come, change and go)
                      └─► routing, discovery, OpenAPI, collector, namespaces

`version` counts changes, so that what is derived from the whole (discovery documents, OpenAPI)
can be cached until it moves.
"""

from __future__ import annotations

from collections.abc import Iterable

from boilerhouse.embedded.apiserver.kind import Kind


class Registry:
    """Kinds by path, by store resource and by apiVersion + kind. One version per resource."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._by_resource: dict[str, Kind] = {}
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_type: dict[tuple[str, str], Kind] = {}
        self._versions: set[tuple[str, str]] = set()
        self.version = 0
        for kind in kinds:
            self.install(kind)

    def install(self, kind: Kind) -> None:
        """Serve a kind; the same resource in another shape is replaced."""
        self._by_resource[kind.resource] = kind
        self._reindex()

    def remove(self, resource: str) -> None:
        """Stop serving a resource; unknown ones are ignored."""
        if self._by_resource.pop(resource, None) is not None:
            self._reindex()

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_path.get((group, version, plural))

    def of_resource(self, resource: str) -> Kind | None:
        """Return the kind of a store resource: `pods`, `widgets.example.com`."""
        return self._by_resource.get(resource)

    def of_type(self, api_version: str, kind: str) -> Kind | None:
        return self._by_type.get((api_version, kind))

    def has_version(self, group: str, version: str) -> bool:
        return (group, version) in self._versions

    def all(self) -> list[Kind]:
        """Return every kind, sorted by group and plural."""
        return sorted(self._by_resource.values(), key=lambda kind: (kind.group, kind.plural))

    def _reindex(self) -> None:
        kinds = self._by_resource.values()
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in kinds}
        self._by_type = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._versions = {(kind.group, kind.version) for kind in kinds}
        self.version += 1
