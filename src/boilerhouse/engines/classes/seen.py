"""What is seen of a class, and what can be planned for it: words of read, decide and apply."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from boilerhouse.core.plan import AddFinalizer, Do, RemoveFinalizer, Wait, WriteStatus
from boilerhouse.engines.classes.model import ClassStatus
from boilerhouse.engines.names import CLASS_FINALIZER


class ClassSeen(Struct, frozen=True):
    """A FireboltEngineClass at one moment."""

    name: str
    uid: str
    version: str
    generation: int
    status: ClassStatus
    finalizers: tuple[str, ...] = ()
    deleting: bool = False

    @property
    def held(self) -> bool:
        return CLASS_FINALIZER in self.finalizers


class Seen(Struct, frozen=True):
    """Everything that a decision about one class may look at."""

    now: datetime
    klass: ClassSeen
    refused: tuple[str, ...] = ()  # what its template may not say
    unusable: tuple[str, ...] = ()  # what else is wrong with its spec
    engines: tuple[str, ...] = ()  # that name it; asked live when it is being deleted


Step = AddFinalizer | RemoveFinalizer

Plan = Do[Step] | WriteStatus[ClassStatus] | Wait
