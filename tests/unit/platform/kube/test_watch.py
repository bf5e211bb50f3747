"""From the bytes of a watch to events, or to an error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boilerhouse.platform.kube import watch
from boilerhouse.platform.kube.resources import PODS, Key
from boilerhouse.platform.kube.status import Gone, InternalError
from tests.unit.platform.kube.servers import pod, status


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def line(type_: str, body: object) -> bytes:
    return msgspec.json.encode({"type": type_, "object": body}) + b"\n"


STREAM = line("ADDED", pod("a", 1)) + line("MODIFIED", pod("a", 2)) + line("DELETED", pod("a", 3))


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=12))
async def test_events_do_not_depend_on_how_the_stream_is_cut(cuts: list[int]) -> None:
    """Wherever the network cuts, the same events come out."""
    edges = [0, *sorted(cuts), len(STREAM)]
    parts = [STREAM[a:b] for a, b in pairwise(edges)]
    found = [event async for event in watch.events(PODS, pieces(*parts))]
    assert [(e.type, e.key, e.resource_version) for e in found] == [
        ("ADDED", Key("default", "a"), "1"),
        ("MODIFIED", Key("default", "a"), "2"),
        ("DELETED", Key("default", "a"), "3"),
    ]
    assert all(e.object is not None for e in found)


async def test_a_bookmark_has_a_revision_and_no_object() -> None:
    """It tells how far the watch has come; the last of the initial events is marked."""
    mark = {"kind": "Pod", "metadata": {"resourceVersion": "77"}}
    end = {
        "metadata": {
            "resourceVersion": "78",
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
    }
    parts = pieces(line("BOOKMARK", mark) + line("BOOKMARK", end))
    first, second = [event async for event in watch.events(PODS, parts)]
    assert (first.type, first.resource_version, first.object) == ("BOOKMARK", "77", None)
    assert not first.initial_events_end
    assert second.initial_events_end


async def test_an_error_event_is_raised_as_what_it_says() -> None:
    """410 in the middle of a watch is Gone."""
    with pytest.raises(Gone, match="too old"):
        async for _ in watch.events(PODS, pieces(line("ERROR", status(410, "Expired", "too old")))):
            pass


@pytest.mark.parametrize(
    "broken",
    [
        b"nonsense\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "EXPLODED", "object": {}}\n',
        b'{"type": "ADDED", "object": 5}\n',
        b'{"type": "BOOKMARK", "object": {"metadata": []}}\n',
        line("ADDED", pod("a", 1))[:-10],
        b"\xff\xfe\n",
    ],
)
async def test_anything_else_is_an_error(broken: bytes) -> None:
    """Neither a malformed line nor half of one is skipped: what was missed is unknown."""
    with pytest.raises(InternalError, match="watch"):
        async for _ in watch.events(PODS, pieces(STREAM, broken)):
            pass


async def test_an_object_that_does_not_fit_is_named() -> None:
    """The event says which object it is and why it cannot be read."""
    bad = pod("bad", 9) | {"spec": {"nodeName": []}}
    (event,) = [event async for event in watch.events(PODS, pieces(line("MODIFIED", bad)))]
    assert (event.key, event.resource_version, event.object) == (Key("default", "bad"), "9", None)
    assert "nodeName" in event.misfit


async def test_an_endless_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream without line ends does not fill our memory."""
    monkeypatch.setattr(watch, "LINE_LIMIT", 1000)
    with pytest.raises(InternalError, match="more than 1000 bytes"):
        async for _ in watch.events(PODS, pieces(*[b"x" * 100] * 20)):
            pass


class Held:
    """A reader that holds the version 2 of the Pod `a`, which no watch has told it of."""

    ahead = True

    def holds(self, key: Key, resource_version: str) -> bool:
        return key == Key("default", "a") and int(resource_version) <= 2


async def test_a_version_that_is_held_is_not_read_again() -> None:
    """Its event says which one it is and no more, as those before it; others have their object."""
    later = line("MODIFIED", pod("a", 3)) + line("ADDED", pod("b", 1))
    found = [event async for event in watch.events(PODS, pieces(STREAM + later), Held())]
    assert [(e.type, e.resource_version, e.known, e.object is None) for e in found] == [
        ("ADDED", "1", True, True),
        ("MODIFIED", "2", True, True),
        ("DELETED", "3", False, False),
        ("MODIFIED", "3", False, False),
        ("ADDED", "1", False, False),
    ]


async def test_a_deletion_is_told_though_its_version_is_held() -> None:
    """Servers have been seen that tell of a deletion at the version the object had."""
    last = line("DELETED", pod("a", 2))
    [event] = [event async for event in watch.events(PODS, pieces(last), Held())]
    assert (event.type, event.known) == ("DELETED", False)
    assert event.object is not None


async def test_errors_and_bookmarks_are_none_of_what_is_held() -> None:
    """They are understood as ever by a reader that is ahead of its watch."""
    mark = line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "77"}})
    error = line("ERROR", status(410, "Expired", "too old"))
    events = watch.events(PODS, pieces(mark + error), Held())
    assert (await anext(events)).type == "BOOKMARK"
    with pytest.raises(Gone, match="too old"):
        await anext(events)
