"""What a Workload says about its network: the ports it opens and what it may reach."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, structs

from boilerhouse.core.model import Model
from boilerhouse.core.names import AGENT_PORT, HELPER_PORT
from boilerhouse.core.patterns import DNS_SUBDOMAIN
from boilerhouse.core.rules import Rule, exactly_one_of
from boilerhouse.core.schema import UNIQUE, Int32, doc, keyed_by

Port = Annotated[Int32, Meta(ge=1, le=65535)]


def not_reserved(field: str) -> Rule:
    """The port in this field is none that Boilerhouse listens on in every instance's network."""
    taken = (HELPER_PORT, AGENT_PORT)
    return Rule(
        cel=f"!(self.{field} in {list(taken)})",
        message=f"ports {' and '.join(map(str, taken))} are reserved",
        holds=lambda value: structs.asdict(value)[field] not in taken,
        field=field,
    )


class Access(StrEnum):
    """What an instance may reach."""

    NONE = "none"
    RESTRICTED = "restricted"
    UNRESTRICTED = "unrestricted"


class Expose(Model, frozen=True):
    """A port that the instance listens on."""

    RULES: ClassVar = (not_reserved("guest"),)

    guest: Annotated[Port, doc("Port inside the instance.")]


class SecretKeyRef(Model, frozen=True):
    """One entry of a Secret."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
        doc("Name of the Secret, in the same namespace."),
    ]
    key: Annotated[
        str,
        Meta(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+\Z"),
        doc("Key of the entry."),
    ]


class ValueFrom(Model, frozen=True):
    """Where a value that must not be written down is found."""

    secret_key_ref: SecretKeyRef


class Header(Model, frozen=True):
    """A header that is added to every request to a domain."""

    RULES: ClassVar = (exactly_one_of("value", "valueFrom"),)

    name: Annotated[
        str,
        # The characters of an HTTP token (RFC 9110).
        Meta(min_length=1, max_length=256, pattern=r"^[!#-'*+.^_`|~0-9A-Za-z-]+\Z"),
        doc("Name of the header."),
    ]
    value: (
        Annotated[
            str,
            Meta(max_length=8192, pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]*\Z"),
            doc("Its value, for all to read."),
        ]
        | None
    ) = None
    value_from: ValueFrom | None = None


class Credential(Model, frozen=True):
    """Headers that requests to one domain get on their way, so that no instance ever sees them."""

    domain: Annotated[
        str,
        Meta(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN),
        doc("Domain that the headers are for."),
    ]
    headers: Annotated[
        tuple[Header, ...],
        Meta(min_length=1, max_length=32),
        keyed_by("name"),
        doc("The headers."),
    ]


# A domain, or all below one.
_ALLOWED = DNS_SUBDOMAIN.replace("^", r"^(\*\.)?")


class Network(Model, frozen=True):
    """Which ports the instance opens and what it may reach."""

    access: Annotated[
        Access,
        doc(
            "What the instance may reach: nothing, the domains of allowlist and credentials, or"
            " everything."
        ),
    ] = Access.NONE
    expose: Annotated[
        tuple[Expose, ...],
        Meta(max_length=32),
        keyed_by("guest"),
        doc("Ports that the instance listens on; the first is the endpoint of a claim."),
    ] = ()
    allowlist: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=253, pattern=_ALLOWED)], ...],
        Meta(max_length=256),
        UNIQUE,
        doc("Domains that may be reached with access restricted; *.domain means all below it."),
    ] = ()
    websocket: (
        Annotated[
            str,
            Meta(max_length=1024, pattern=r"^/[!-~]*\Z"),
            doc("Path of the instance's WebSocket, told to whoever claims one."),
        ]
        | None
    ) = None
    credentials: Annotated[
        tuple[Credential, ...],
        Meta(max_length=64),
        keyed_by("domain"),
        doc("Headers to add to requests, by domain."),
    ] = ()
