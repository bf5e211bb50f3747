"""How long a container that ends waits for its next life."""

from __future__ import annotations

from boilerhouse.embedded.kubelet.backoff import Backoff


def test_the_first_restart_is_immediate_then_it_doubles() -> None:
    """0, 10, 20 … seconds, never more than five minutes."""
    backoff = Backoff()
    assert [backoff.after() for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_life_is_forgiven() -> None:
    """Ten minutes of running begin a new count; a second less does not."""
    backoff = Backoff()
    for _ in range(5):
        backoff.after()
    assert backoff.after(ran=599) == 160
    assert backoff.after(ran=600) == 0
    assert backoff.after() == 10


def test_failed_attempts_always_wait() -> None:
    """What could not even be started is never tried again at once, however often."""
    backoff = Backoff(first=1, longest=60)
    assert [backoff.again() for _ in range(3)] == [1, 2, 4]
    assert [backoff.again() for _ in range(2000)][-1] == 60
