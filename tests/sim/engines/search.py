"""Every world that can be reached, and that each of them can come to rest.

born ─► looks × decide × single writes, edits, deletions, tampering ─► all worlds ─► invariants
                                            fair looks only ─► backwards from rest ─► all worlds
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec import structs

from boilerhouse.core.errors import IllegalTransition
from boilerhouse.core.plan import Wait, WriteStatus
from boilerhouse.engines.engines.decide import decide
from boilerhouse.engines.engines.machine import SETTLED
from boilerhouse.engines.engines.seen import Plan, Seen
from tests.sim.engines.invariants import Violated, check, check_plan, check_write
from tests.sim.engines.model import (
    EMPTY,
    FAIR,
    SPECS,
    Generation,
    Look,
    World,
    Write,
    born,
    gone,
    looks,
    others,
    plain,
    view,
    writes,
)

Queue = deque[tuple[World | None, World]]


@dataclass
class Search:
    """Reaches every world from the given ones, and checks each of them and each write."""

    births: tuple[World, ...]
    lag: int = 0  # also decide on mixes of a world and those before it, so many writes back
    every_order: bool = False
    trusting: bool = False  # apply does not ask before it points the Service elsewhere
    decide: Callable[[Seen], Plan] = decide
    worlds: dict[World, tuple[World | None, str]] = field(default_factory=dict)
    decisions: int = 0
    _plans: dict[tuple[World, Look], Plan] = field(default_factory=dict)
    _done: set[World] = field(default_factory=set)
    _mistakes: set[tuple[World, World]] = field(default_factory=set)
    _fair: dict[World, list[World]] = field(default_factory=dict)

    def run(self) -> None:
        queue: Queue = deque()
        for birth in self.births:
            self._reach(birth, None, "born", queue)
        while queue:
            before, world = queue.popleft()
            if world.gone:
                continue
            if world not in self._done:
                self._done.add(world)
                self._go_on(world, queue)
            past = before
            for back in range(self.lag):
                if past is None:
                    break
                self._go_on_mistaken(past, world, queue, service_too=back == 0)
                past = self.worlds[past][0]
        self._all_come_to_rest()

    def _go_on(self, world: World, queue: Queue) -> None:
        for look in looks(world):
            for write in self._pass(world, world, look, queue):
                if look == FAIR:
                    self._fair.setdefault(world, []).append(write.after)
        for after in others(world):
            self._reach(after, world, "others", queue)

    def _go_on_mistaken(
        self, before: World, world: World, queue: Queue, *, service_too: bool
    ) -> None:
        """Decide on a mix of a world and an earlier one.

        The Service is read for each pass, so what is seen of it is one write old at most.
        """
        for seen_from in _mixed(before, world, service_too=service_too):
            if (seen_from, world) not in self._mistakes:
                self._mistakes.add((seen_from, world))
                for look in looks(seen_from):
                    self._pass(world, seen_from, look, queue)

    def _pass(self, world: World, seen_from: World, look: Look, queue: Queue) -> list[Write]:
        plan = self._plan(seen_from, look)
        self._fail(check_plan(seen_from, plan, stale=seen_from is not world), world)
        made = []
        for write in writes(
            world, seen_from, plan, every_order=self.every_order, trusting=self.trusting
        ):
            story = f"{_look(look)}{write.what}"
            wrong = check_write(
                world, look, write, stale=seen_from is not world, touched=self._touched(world)
            )
            if wrong:
                self.worlds.setdefault(write.after, (world, story))
                self._fail(wrong, write.after)
            self._reach(write.after, world, story, queue)
            made.append(write)
        return made

    def _plan(self, world: World, look: Look) -> Plan:
        known = self._plans.get((world, look))
        if known is None:
            seen = view(world, look)
            try:
                known = self.decide(seen)
            except IllegalTransition as error:
                raise Violated("IllegalTransition", f"{error}\n{_told(world)}") from error
            if isinstance(known, WriteStatus) and plain(known.status) == world.status:
                # It only tells news. What is decided once they are told?
                told = structs.replace(seen.engine, status=known.status)
                known = self.decide(structs.replace(seen, engine=told))
            self._plans[world, look] = known
            self.decisions += 1
        return known

    def _reach(self, world: World, before: World | None, story: str, queue: Queue) -> None:
        if world in self.worlds:
            if self.lag:
                queue.append((before, world))
            return
        self.worlds[world] = (before, story)
        self._fail(check(world, touched=self._touched(world)), world)
        queue.append((before, world))

    def _all_come_to_rest(self) -> None:
        """Go backwards over fair steps from the worlds at rest: that must be every world."""
        back: dict[World, list[World]] = {}
        for world in self.worlds:
            for after in (*self._fair.get(world, ()), *gone(world)):
                back.setdefault(after, []).append(world)
        reached = {world for world in self.worlds if self._at_rest(world)}
        queue = list(reached)
        for world in queue:
            for before in back.get(world, ()):
                if before not in reached:
                    reached.add(before)
                    queue.append(before)
        for world in self.worlds:
            if world not in reached:
                self._fail("Converges", world)

    def _at_rest(self, world: World) -> bool:
        if world.gone:
            return True
        status = world.status
        wanted = SPECS[world.spec][0]
        if world.deleting or status.phase not in SETTLED:
            return False
        if wanted not in (status.active_render_hash, status.aborted_render_hash):
            return False
        if not isinstance(self._plan(world, FAIR), Wait):
            return False
        left = [n for n, one in enumerate(world.generations) if one != EMPTY]
        serving = world.generations[status.active_generation]
        return (
            left == [status.active_generation]
            and world.service == status.active_generation
            and bool(serving.statefulset)
            and not serving.edited
        )

    def _touched(self, world: World) -> bool:
        return world.tampers < self.births[0].tampers

    def _fail(self, name: str, world: World) -> None:
        if name:
            raise Violated(name, "\n".join(self._story(world)))

    def _story(self, world: World) -> list[str]:
        lines: list[str] = []
        here: World | None = world
        while here is not None:
            before, story = self.worlds[here]
            lines.append(f"{story[:120]}\n    ─► {_told(here)}")
            here = before
        return lines[::-1]


def _look(look: Look) -> str:
    odd = [
        f"{name}={value}" for name, value in look._asdict().items() if value != getattr(FAIR, name)
    ]
    return f"[{' '.join(odd)}] " if odd else ""


def _told(world: World) -> str:
    status = world.status
    there = [
        f"g{n}({one.statefulset}{'!' * one.edited}{'-' * one.going} {one.config}"
        f" {one.headless:d}{one.budget:d})"
        for n, one in enumerate(world.generations)
        if one != EMPTY
    ]
    return (
        f"{status.phase} current={status.current_generation}/{status.current_render_hash}"
        f" active={status.active_generation}/{status.active_render_hash}"
        f" draining={status.draining_generation} latest={status.latest_generation}"
        f" spec={SPECS[world.spec][0]} service={world.service} {' '.join(there)}"
        f"{' deleting' * world.deleting}{' gone' * world.gone}"
    )


def _mixed(before: World, now: World, *, service_too: bool) -> Iterable[World]:
    """Mix what a cache still shows of the world before with what is true now.

    Objects of before, the engine of now: an object that was absent is asked for, so it is seen as
    it is. And the engine of before, the objects of now.
    """
    generations = tuple(
        Generation(
            statefulset=was.statefulset or there.statefulset,
            config=was.config or there.config,
            headless=was.headless or there.headless,
            budget=was.budget or there.budget,
            edited=was.edited if was.statefulset else there.edited,
            going=was.going if was.statefulset else there.going,
        )
        for was, there in zip(before.generations, now.generations, strict=True)
    )
    service = before.service if service_too and before.service is not None else now.service
    if (generations, service) != (now.generations, now.service):
        yield now._replace(generations=generations, service=service)
    engine = (before.spec, before.status, before.held, before.deleting)
    if engine != (now.spec, now.status, now.held, now.deleting):
        yield now._replace(
            spec=before.spec, status=before.status, held=before.held, deleting=before.deleting
        )


def births(
    *,
    edits: int,
    tampers: int = 0,
    mortal: bool = False,
    spare: int = 0,
    specs: tuple[int, ...] = (0, len(SPECS) - 1),
) -> tuple[World, ...]:
    """Return an engine that was just made, with replicas and without."""
    return tuple(
        born(spec, edits=edits, tampers=tampers, mortal=mortal, spare=spare) for spec in specs
    )
