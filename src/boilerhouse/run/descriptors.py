"""Divide the file descriptors of this process between what it needs and connections.

RLIMIT_NOFILE, raised ─► divide ─► ConnectionLimit.most, commands at a time, Pods of the node

    kept back    store, logs, listeners, fork server, archive workers; and for every command that
                 may run at a time its streams
    connections  two fifths of the rest, each kind of listener its own part
    Pods         what is left

So a flood of connections fills the part of one listener, and nothing else notices.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from boilerhouse.core import connections
from boilerhouse.core.connections import ConnectionLimit

LEAST = 256  # descriptors without which a start is refused
KEPT_BACK = 80
OF_A_COMMAND = 4
OF_A_POD = 12
COMMANDS = 64  # at a time, where descriptors are no matter
_COMMANDS_PART = 32  # one for so many descriptors

_CONNECTIONS = Fraction(2, 5)
# Each kind's part of the connections' descriptors, and what nobody needs more of.
_PARTS: tuple[tuple[ConnectionLimit, Fraction, int], ...] = (
    (connections.API, Fraction(4, 10) / 2, 16_384),  # what is done for it may open one more
    (connections.KUBERNETES, Fraction(2, 10), 16_384),
    (connections.KUBERNETES_SOCKET, Fraction(1, 10), 4_096),
    (connections.PODS, Fraction(2, 10) / 2, 16_384),
    (connections.AGENTS, Fraction(1, 10), 8_192),
)


class TooFewDescriptors(Exception):
    """This process may open too few files to work; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Division:
    """What each may have."""

    descriptors: int
    connections: dict[str, int]  # by the name of their limit
    commands: int
    pods: int


def divide(descriptors: int) -> Division:
    """Divide up so many descriptors; `TooFewDescriptors` if they are too few."""
    if descriptors < LEAST:
        raise TooFewDescriptors(
            f"this process may open {descriptors} files (RLIMIT_NOFILE), and needs {LEAST} at "
            f"least, better 65536: raise the hard limit (`ulimit -Hn`, LimitNOFILE= of systemd)"
        )
    commands = min(COMMANDS, descriptors // _COMMANDS_PART)
    rest = descriptors - KEPT_BACK - commands * OF_A_COMMAND
    shared = int(rest * _CONNECTIONS)
    limits = {limit.name: min(int(shared * part), most) for limit, part, most in _PARTS}
    return Division(descriptors, limits, commands, (rest - shared) // OF_A_POD)


def take_descriptors() -> Division:
    """Raise the limit to what the system allows, and have every listener keep to its part."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    division = divide(hard if hard != resource.RLIM_INFINITY else 1 << 20)
    for limit in connections.ALL:
        limit.most = division.connections.get(limit.name, limit.most)
    return division


class _Numbers(Collector):
    """The connection limits as metrics, read when asked for."""

    def collect(self) -> Iterator[Metric]:
        labels = ["listener"]
        opened = GaugeMetricFamily(
            "boilerhouse_connections_open", "Open connections.", labels=labels
        )
        most = GaugeMetricFamily(
            "boilerhouse_connections_limit", "Connections that may be open.", labels=labels
        )
        paused = CounterMetricFamily(
            "boilerhouse_accepts_paused",
            "Times that accepting waited for a connection to end.",
            labels=labels,
        )
        closed = CounterMetricFamily(
            "boilerhouse_connections_closed_for_room",
            "Idle connections that were closed for a new one at the limit.",
            labels=labels,
        )
        refused = CounterMetricFamily(
            "boilerhouse_connections_refused",
            "Connections that were closed at once at the limit.",
            labels=labels,
        )
        for limit in connections.ALL:
            opened.add_metric([limit.name], limit.open)
            most.add_metric([limit.name], limit.most)
            paused.add_metric([limit.name], limit.paused)
            closed.add_metric([limit.name], limit.made_room)
            refused.add_metric([limit.name], limit.refused)
        yield from (opened, most, paused, closed, refused)


REGISTRY.register(_Numbers())
