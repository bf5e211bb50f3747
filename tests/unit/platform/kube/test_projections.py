"""Views: made once for each version of an object, and forgotten in time."""

from __future__ import annotations

from boilerhouse.platform.kube.kinds import Bare, ObjectMeta
from boilerhouse.platform.kube.projections import Views


def item(uid: str, version: str) -> Bare:
    return Bare(metadata=ObjectMeta(name=uid, uid=uid, resource_version=version))


def test_a_view_is_made_once_for_each_version() -> None:
    """The same version is not looked at again; another one, newer or older, is."""
    made: list[str] = []

    def make(bare: Bare) -> str:
        made.append(bare.metadata.resource_version)
        return f"{bare.metadata.uid} at {bare.metadata.resource_version}"

    views = Views(make, ())
    assert [views.of(item("a", version)) for version in ("1", "1", "2", "1")] == [
        "a at 1",
        "a at 1",
        "a at 2",
        "a at 1",
    ]
    assert made == ["1", "2", "1"]


def test_no_more_views_are_kept_than_allowed() -> None:
    """However many objects come by, memory is bounded."""
    made: list[str] = []

    def make(bare: Bare) -> str:
        made.append(bare.metadata.uid)
        return bare.metadata.uid

    views = Views(make, ["a"], spare=0)
    for uid in ("a", "b", "c", "c", "a"):
        assert views.of(item(uid, "1")) == uid
    assert made == ["a", "b", "c", "a"]


def test_as_many_views_are_kept_as_there_are_objects() -> None:
    """Those that are there are not made again and again; those that are gone are forgotten."""
    made: list[str] = []

    def make(bare: Bare) -> str:
        made.append(bare.metadata.uid)
        return bare.metadata.uid

    there = [str(number) for number in range(50)]
    views = Views(make, there, spare=10)
    for _ in range(3):
        for uid in there:
            views.of(item(uid, "1"))
    assert made == there
    for number in range(1000):
        views.of(item(f"gone-{number}", "1"))
        assert len(views._made) <= 2 * len(there) + 10
