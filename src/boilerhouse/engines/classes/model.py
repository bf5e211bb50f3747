"""What a class says: FireboltEngineClass as Structs, and what a resource is made of.

A class has no lifecycle: its Ready condition says whether engines can be made of it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from boilerhouse.core.condition import Conditions
from boilerhouse.core.crd import Column
from boilerhouse.core.model import Model
from boilerhouse.core.schema import Int32, Int64, doc
from boilerhouse.engines.fields import Shared, Template
from boilerhouse.engines.profile import Profile


class ClassSpec(Shared, frozen=True, kw_only=True):
    """What every engine of the class has, unless it says otherwise."""

    template: Template
    profile: (
        Annotated[Profile, doc("What is particular to the kind of server; absent means Firebolt.")]
        | None
    ) = None


class ClassStatus(Model, frozen=True):
    """How many engines use the class, and whether they can."""

    observed_generation: Annotated[
        Int64, Meta(ge=0), doc("The metadata.generation that this status speaks of.")
    ] = 0
    bound_engines: Annotated[Int32, Meta(ge=0), doc("Engines that name the class.")] = 0
    conditions: Conditions = field(default=())


KIND = "FireboltEngineClass"
PLURAL = "fireboltengineclasses"
SHORT_NAME = "firengc"
COLUMNS = (
    Column("Bound", ".status.boundEngines", "integer"),
    Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
)
