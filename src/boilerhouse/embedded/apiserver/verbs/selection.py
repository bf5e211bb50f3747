"""Which objects of a resource a list, a watch or a deletecollection is about."""

from __future__ import annotations

from dataclasses import dataclass

from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.apiserver.request.routing import Target
from boilerhouse.embedded.fields.numbers import whole_number
from boilerhouse.embedded.fields.selectors import (
    FieldSelector,
    LabelSelector,
    field_selector,
    label_selector,
)
from boilerhouse.platform.kube.status import BadRequest
from boilerhouse.platform.kube.wire import Request


@dataclass(frozen=True, slots=True)
class Selection:
    """Both selectors; None where nothing is asked, so that nothing is looked at."""

    labels: LabelSelector | None
    fields: FieldSelector | None

    @property
    def everything(self) -> bool:
        return self.labels is None and self.fields is None

    @property
    def name(self) -> str:
        """The one name that an object must have; nothing if it may have several."""
        return (self.fields is not None and self.fields.exactly("metadata.name")) or ""

    def matches(self, body: Body) -> bool:
        if self.labels is not None and not self.labels.matches(body["metadata"].get("labels")):
            return False
        return self.fields is None or self.fields.matches(body)


def select(target: Target, request: Request) -> Selection:
    """Read the selectors of a request. A collection path with a name selects that name."""
    labels = request.param("labelSelector")
    fields = request.param("fieldSelector")
    if target.name:
        fields = f"metadata.name={target.name}" + (f",{fields}" if fields else "")
    return Selection(
        label_selector(labels) if labels else None,
        field_selector(fields, target.kind.selectable) if fields else None,
    )


def number(request: Request, name: str) -> int:
    """Read a whole number from the query; 0 when it is not there."""
    text = request.param(name)
    if not text:
        return 0
    try:
        return whole_number(text)
    except ValueError as error:
        raise BadRequest(f'{name}: parsing "{text}": {error}') from None


def truth(request: Request, name: str) -> bool | None:
    """Read a boolean from the query; None when it is not there."""
    values = request.params(name)
    # Anything that does not say no says yes, as on a real server.
    return values[0].lower() not in ("0", "false") if values else None
