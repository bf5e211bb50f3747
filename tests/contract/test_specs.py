"""The table of good and bad specs, held against every world: each blames the very same fields."""

from __future__ import annotations

import pytest

from boilerhouse.core.crd import CustomResource
from boilerhouse.core.names import API_VERSION
from boilerhouse.operator import catalogue
from tests.api_fixture import World
from tests.contract.conftest import install
from tests.contract.driver import Answer, Api
from tests.tables.specs import CASES, Case


@pytest.mark.parametrize("resource", catalogue.RESOURCES, ids=lambda r: r.kind)
async def test_servers_blame_what_python_blames(
    api: Api, world: World, resource: CustomResource
) -> None:
    """What the model refuses never gets past a server, and what it takes is never turned away."""
    if "catalogue" not in world.installed:
        await install(api, *catalogue.crds())
        world.installed.add("catalogue")
    cases = [case for case in CASES if case.kind == resource.kind]
    wrong = {}
    for number, case in enumerate(cases):
        body = {
            "apiVersion": API_VERSION,
            "kind": case.kind,
            "metadata": {"name": f"c{number}"},
            "spec": case.spec,
        }
        blamed = _blamed(await api.create(resource.plural, body, dryRun="All"))
        if not _agree(blamed, case):
            wrong[str(case)] = (sorted(blamed), sorted(case.blamed))
    assert not wrong


def _blamed(answer: Answer) -> set[str]:
    # The scale's replicas are checked apart, under a path with a leading dot.
    return set() if answer.code == 201 else {field.lstrip(".") for field, _ in answer.causes()}


def _agree(blamed: set[str], case: Case) -> bool:
    """A server asks rules of the whole even where a part is broken, and may blame both."""
    wholes = {
        field
        for field in blamed
        if any(one.startswith((f"{field}.", f"{field}[")) for one in case.blamed)
    }
    return blamed - wholes == case.blamed - wholes
