"""One container of a Pod through all its lives: started, asked, ended, started again.

    Launcher.start ─► probes ─► exit ─► restart policy, back-off ─┐
         ▲                                                        │
         └──────────────────────── or what stands by ◄────────────┘

The loop writes its `ContainerFacts` and says that they changed; it knows nothing of the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from boilerhouse.core.clock import Clock
from boilerhouse.core.supervision import supervised
from boilerhouse.embedded.kubelet.backoff import Backoff
from boilerhouse.embedded.kubelet.container import Exit
from boilerhouse.embedded.kubelet.containers.checks import checking
from boilerhouse.embedded.kubelet.containers.launch import Launched
from boilerhouse.embedded.kubelet.containers.probes import Probe, Timing
from boilerhouse.embedded.kubelet.containers.standby import Prepare, Standby
from boilerhouse.embedded.kubelet.containers.standstill import Standstill
from boilerhouse.embedded.kubelet.objects.containerspec import Refused
from boilerhouse.embedded.kubelet.objects.status import (
    ContainerFacts,
    Running,
    Terminated,
    Waiting,
)
from boilerhouse.platform.kube.events import Type

Body = Mapping[str, Any]
_IMAGE_FAILURES = ("ErrImagePull", "ErrImageNeverPull")


class Changed(Protocol):
    """Told after each change of facts; `urgent` ones are waited for by somebody."""

    def __call__(self, *, urgent: bool = False) -> None: ...


class Said(Protocol):
    """Told what people should know, for Events."""

    def __call__(self, kind: Type, reason: str, message: str) -> None: ...


class ContainerLoop:
    """`run` it once; `stop` or `kill` it at any time."""

    def __init__(
        self,
        container: Body,
        facts: ContainerFacts,
        *,
        restart: str,
        grace: float,
        start: Callable[[Body, int], Any],
        clock: Clock,
        changed: Changed,
        said: Said,
        attempt: int = 0,
        standstill: Standstill | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        self.container = container
        self.facts = facts
        self.launched: Launched | None = None
        self.started = asyncio.Event()  # its startup probe has succeeded: the next may start
        self._restart = restart  # Always, OnFailure or Never
        self._grace = grace
        self._start = start
        self._clock = clock
        self._changed = changed
        self._said = said
        self._attempt = attempt
        self._standstill = standstill or Standstill()
        self._standby = Standby(prepare)
        self._backoff = Backoff()
        self._patience = Backoff()
        self._stopping = asyncio.Event()
        self._replaced = False
        self._wake = asyncio.Event()  # out of a pause
        facts.restart_count = attempt

    async def run(self) -> None:
        """Keep the container running until it need not be any more, or until it is stopped."""
        while not self._stopping.is_set():
            await self._standstill.over(self._stopping)
            launched = await self._launch()
            if launched is None:
                continue
            exited = await self._live(launched)
            self._end(launched, exited)
            if self._stopping.is_set() or not self._again(exited):
                break
            await self._back_off(launched)
            self._attempt += 1
            self.facts.restart_count = self._attempt
        self.facts.finished = True
        self._changed(urgent=True)

    def prepare_next(self) -> None:
        """Have its next life ready: it begins soon, after the end of the one that may be now."""
        lives = self.launched is not None
        if not self._stopping.is_set() and (not lives or self._restart == "Always"):
            self._standby.begin(self.container, self._attempt + 1 if lives else self._attempt)

    def forget_next(self) -> None:
        """Give up a life that was made ready: the one that is now goes on."""
        self._standby.forget()

    async def close(self) -> None:
        """Leave nothing ready; the loop has ended, or never ran."""
        await self._standby.close()

    def stop(self) -> None:
        """End it in good order, and do not start it again."""
        self._stopping.set()
        self._wake.set()
        if self.launched is not None:
            self.launched.process.signal(self.launched.stop_signal)

    def kill(self) -> None:
        """End it at once, and do not start it again."""
        self._stopping.set()
        self._wake.set()
        if self.launched is not None:
            self.launched.process.signal(signal.SIGKILL)

    def replace(self, container: Body) -> None:
        """Go on with another image: end the life of the old one, begin the new one at once."""
        self.container = container
        self.facts.image = container.get("image", "")
        self._replaced = True
        self._wake.set()
        launched = self.launched
        if launched is not None:
            words = f"Container {self.facts.name} definition changed, will be restarted"
            self._said("Normal", "Killing", words)
            launched.process.signal(launched.stop_signal)
            loop = asyncio.get_running_loop()
            loop.call_later(self._grace, launched.process.signal, signal.SIGKILL)

    async def _launch(self) -> Launched | None:
        """Start it, or wait a while and return None."""
        self._replaced = False
        if not self._stopping.is_set():
            self._wake.clear()
        try:
            if self._standstill.on:
                return None
            with self._standstill.start():
                launched = await self._started()
                self.launched = launched
        except Refused as refused:
            await self._refused(refused)
            return None
        self._patience = Backoff()
        facts = self.facts
        if launched.process.start_error is None:
            facts.state = Running(launched.process.started_at)
        facts.image_id, facts.container_id = launched.image_id, launched.container_id
        if self._stopping.is_set():  # asked to while it was being started
            self.stop()
        self._changed()
        return launched

    async def _started(self) -> Launched:
        """Let go what stands by, or start from the beginning."""
        ready = await self._standby.take(self.container, self._attempt)
        if ready is not None:
            return await ready.start()
        launched: Launched = await self._start(self.container, self._attempt)
        return launched

    async def _refused(self, refused: Refused) -> None:
        delay = self._patience.again()
        self._wait_state(refused.reason, str(refused))
        self._said("Warning", "Failed", str(refused))
        if refused.reason in _IMAGE_FAILURES:
            # First why, then that it is waited for, as a real kubelet shows it in turns.
            await self._pause(min(1.0, delay))
            if refused.reason == "ErrImagePull" and not self._wake.is_set():
                image = self.container.get("image", "")
                words = f'Back-off pulling image "{image}": ErrImagePull: {refused}'
                self._wait_state("ImagePullBackOff", words)
            delay = max(0.0, delay - 1.0)
        await self._pause(delay)

    def _wait_state(self, reason: str, message: str) -> None:
        self.facts.state = Waiting(reason, message)
        self._changed(urgent=True)

    async def _live(self, launched: Launched) -> Exit:
        if launched.process.start_error is not None:
            return await launched.process.wait()  # its program never ran: there is nothing to ask
        async with self._probing(launched):
            return await launched.process.wait()

    @asynccontextmanager
    async def _probing(self, launched: Launched) -> AsyncIterator[None]:
        name = f"probes of container {self.facts.name}"
        probing = supervised(name, lambda: self._probe(launched), may_end=True)
        task = asyncio.create_task(probing, name=name)
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _probe(self, launched: Launched) -> None:
        startup = self._made("startupProbe", launched)
        if startup is not None and not await startup.succeeds(self._held_up):
            await self._unhealthy("Startup", startup.why, launched)
            return
        self.facts.started = True
        self.started.set()
        readiness, liveness = (
            self._made(name, launched) for name in ("readinessProbe", "livenessProbe")
        )
        by_news = startup is not None and launched.subject.news is not None
        self.facts.ready = readiness is None or by_news
        # A sidecar's first start is told with that of the main containers, which it lets go now.
        self._changed(urgent=self.facts.role != "sidecar" or self._attempt > 0)
        following = None
        if readiness is not None:
            follow = readiness.follow_news if by_news else readiness.follow
            following = asyncio.create_task(follow(self._set_ready))
        try:
            if liveness is not None:
                await liveness.fails()
                await self._unhealthy("Liveness", liveness.why, launched)
            elif following is not None:
                await following
        finally:
            if following is not None:
                following.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await following

    def _held_up(self) -> None:
        """Tell of a container that runs and has not started: it may wait for who sees that."""
        self._changed(urgent=True)

    def _made(self, name: str, launched: Launched) -> Probe | None:
        given = self.container.get(name)
        if given is None:
            return None
        news = launched.subject.news
        timing = Timing.of(given, news=news is not None)
        kind = name.removesuffix("Probe").capitalize()

        def failing(why: str) -> None:
            # A built-in container that waits for its files says itself what it waits for.
            if news is None:
                self._said("Warning", "Unhealthy", f"{kind} probe failed: {why}")

        return Probe(timing, checking(given, launched.subject), news, failing)

    def _set_ready(self, ready: bool) -> None:
        self.facts.ready = ready
        self._changed(urgent=True)

    async def _unhealthy(self, kind: str, why: str, launched: Launched) -> None:
        """End a container that does not answer; what happens next is its restart policy's."""
        self._said("Warning", "Unhealthy", f"{kind} probe failed: {why}")
        words = f"Container {self.facts.name} failed {kind.lower()} probe, will be restarted"
        self._said("Normal", "Killing", words)
        launched.process.signal(launched.stop_signal)
        await asyncio.sleep(self._grace)
        launched.process.signal(signal.SIGKILL)

    def _end(self, launched: Launched, exited: Exit) -> None:
        facts = self.facts
        self.launched = None
        facts.ready = facts.started = False
        if facts.role == "sidecar":
            # Until it is back, nobody waits for it: what started after it runs already.
            self.started.clear()
        facts.state = Terminated(
            exited.code,
            _reason(exited),
            launched.process.started_at,
            self._clock.now(),
            exited.start_error or "",
            launched.container_id,
            exited.signal,
        )
        if exited.start_error is not None:
            self._said("Warning", "Failed", exited.start_error)
        if exited.oom_killed:
            self._said("Warning", "OOMKilled", f"Container {facts.name} ran out of memory")
        # If the next life has only to be let go, or nearly, it is told of with it.
        self._changed(urgent=not self._standby.expected)

    def _again(self, exited: Exit) -> bool:
        return (
            self._replaced
            or self._restart == "Always"
            or (self._restart == "OnFailure" and exited.code != 0)
        )

    async def _back_off(self, launched: Launched) -> None:
        facts = self.facts
        assert isinstance(facts.state, Terminated), "it has just ended"
        facts.last = facts.state
        ran = (facts.state.finished_at - launched.process.started_at).total_seconds()
        delay = 0.0 if self._replaced else self._backoff.after(ran)
        if delay:
            words = f"back-off {delay:g}s restarting failed container={facts.name}"
            if facts.last.message:
                words += f": {facts.last.message}"
            self._wait_state("CrashLoopBackOff", words)
            self._said("Warning", "BackOff", words)
            await self._pause(delay)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()


def _reason(exited: Exit) -> str:
    if exited.start_error is not None:
        return "StartError"
    if exited.oom_killed:
        return "OOMKilled"
    return "Completed" if exited.code == 0 else "Error"
