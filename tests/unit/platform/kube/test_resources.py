"""Resources: where objects live, how kinds of our own plug in, what selectors select."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.platform.kube import selectors
from boilerhouse.platform.kube.kinds import Custom
from boilerhouse.platform.kube.resources import CRDS, NODES, PODS, SECRETS, Key, Resource, key_of
from boilerhouse.platform.kube.status import BadRequest


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    tenant_id: str


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"


CLAIMS = Resource(
    "boilerhouse.dev",
    "v1alpha1",
    "boilerhouseclaims",
    "BoilerhouseClaim",
    Custom[ClaimSpec, ClaimStatus],
)


def test_a_kind_of_our_own_plugs_in() -> None:
    """Spec and status are two Structs; the rest is the same as for any other kind."""
    claim = CLAIMS.decode(
        b'{"metadata": {"name": "x", "namespace": "shop"}, "spec": {"tenantId": "ann"},'
        b' "status": {"phase": "Active"}}'
    )
    assert claim.spec.tenant_id == "ann"
    assert claim.status is not None
    assert claim.status.phase == "Active"
    assert key_of(claim) == Key("shop", "x")
    assert str(CLAIMS) == "boilerhouseclaims.boilerhouse.dev"
    assert CLAIMS.api_version == "boilerhouse.dev/v1alpha1"
    assert CLAIMS.path("shop", "x", "status") == (
        "/apis/boilerhouse.dev/v1alpha1/namespaces/shop/boilerhouseclaims/x/status"
    )


def test_an_object_without_a_status_has_none() -> None:
    """Not yet written is not the same as empty."""
    assert CLAIMS.decode(b'{"spec": {"tenantId": "ann"}}').status is None


def test_paths() -> None:
    """The core group, named groups, all namespaces, cluster scope."""
    assert PODS.path("shop") == "/api/v1/namespaces/shop/pods"
    assert PODS.path("") == "/api/v1/pods"
    assert NODES.path("shop", "n1") == "/api/v1/nodes/n1"
    assert CRDS.path("") == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    with pytest.raises(BadRequest):
        PODS.path("a/b")


def test_keys_print_as_people_write_them() -> None:
    """namespace/name, or the name alone."""
    assert str(Key("shop", "x")) == "shop/x"
    assert str(Key("", "node")) == "node"


def test_secrets_arrive_decoded() -> None:
    """The base64 of the wire is gone."""
    assert SECRETS.decode(b'{"data": {"k": "aGk="}}').data == {"k": b"hi"}


WORDS = st.text("abc", min_size=1, max_size=2)


@given(
    wanted=st.dictionaries(WORDS, st.none() | WORDS, max_size=3),
    have=st.dictionaries(WORDS, WORDS, max_size=4),
)
def test_a_selector_selects_what_has_all_it_asks_for(
    wanted: dict[str, str | None], have: dict[str, str]
) -> None:
    """Equality and existence, joined by and."""
    text = selectors.render(wanted)
    terms = text.split(",") if text else []
    holds = all(
        have.get(term.partition("=")[0]) == term.partition("=")[2] if "=" in term else term in have
        for term in terms
    )
    assert selectors.matches(wanted, have) is holds
