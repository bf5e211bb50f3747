"""What an object needs that is to be exactly so."""

from __future__ import annotations

from boilerhouse.core.upkeep import Body, Replace, Seen, There, Wait, decide


def test_what_counts_as_the_same_can_be_told() -> None:
    """A kind to which the server adds defaults is compared by what was asked for."""

    def asked_for(there: Body, wanted: Body) -> bool:
        return there.items() >= wanted.items()

    wanted = {"metadata": {"name": "a"}, "spec": {"port": 1}}
    filled_in = There("u", "1", {"port": 1, "protocol": "TCP"})
    assert decide(Seen(wanted, filled_in)) == Replace("u", "1", wanted)
    assert decide(Seen(wanted, filled_in), asked_for) == Wait()
    assert decide(Seen(wanted, There("u", "1", {"port": 2})), asked_for) == Replace(
        "u", "1", wanted
    )
