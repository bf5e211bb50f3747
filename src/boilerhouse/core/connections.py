"""Connection limits: how many connections each kind of listener may have open at a time.

RLIMIT_NOFILE ─► run/descriptors.py ─► ConnectionLimit.most ─► accept, or pause

A process has one table of descriptors, whoever uses it, so these limits are the process's own and
not passed around. Their sum leaves what the process itself needs: running out of connections is a
pause, running out of descriptors would hit whatever opens a file next.
"""

from __future__ import annotations

from collections.abc import Callable

DEFAULT = 1000  # connections of one kind, until a start has divided up what there is


class ConnectionLimit:
    """The open connections of one kind of listener, and their bound. Event loop only."""

    def __init__(self, name: str, most: int = DEFAULT) -> None:
        self.name = name
        self.most = most
        self.open = 0
        self.paused = 0  # times that accepting had to wait
        self.made_room = 0  # idle connections that were closed for a new one
        self.refused = 0  # connections that were closed at once
        self._waiting: list[Callable[[], None]] = []

    def is_full(self) -> bool:
        return self.open >= self.most

    def take(self) -> None:
        self.open += 1

    def give_back(self) -> None:
        """Count one less; everyone who waits for room looks again."""
        self.open -= 1
        if self._waiting and not self.is_full():
            waiting, self._waiting = self._waiting, []
            for look_again in waiting:
                look_again()

    def when_room(self, look_again: Callable[[], None]) -> None:
        """Have a function called once, when a connection has ended."""
        self._waiting.append(look_again)


API = ConnectionLimit("api")
KUBERNETES = ConnectionLimit("kubernetes")
KUBERNETES_SOCKET = ConnectionLimit("kubernetes-socket")
PODS = ConnectionLimit("pods")  # carried to Pods' ports: two descriptors each
AGENTS = ConnectionLimit("agents")  # of all agents and the helper in this process
PROBES = ConnectionLimit("probes")

ALL = (API, KUBERNETES, KUBERNETES_SOCKET, PODS, AGENTS, PROBES)
