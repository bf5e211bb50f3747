"""An agent that is none: it speaks the protocol of saves and restores, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

from boilerhouse.node.agent import protocol
from boilerhouse.node.agent.protocol import RestoreReport, SaveReport, State, Unchanged
from boilerhouse.platform.rpc.framing import Broken
from boilerhouse.platform.rpc.message import Answer, Body, Request, json_answer
from boilerhouse.platform.rpc.peer import Unreachable
from boilerhouse.platform.rpc.refusal import TOKEN_HEADER, Refused

TOKEN = "the-token-of-this-agent"
PIECE = 64 << 10


@dataclass
class Pretender:
    """`data` is what the overlays hold, as the archive that they would become."""

    data: bytes = b"data"
    baseline: str = ""
    restored: str = ""
    frozen: bool = False
    may_stop: bool = False
    skipped: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    # Misbehaviour.
    breaks_after: int | None = None  # pieces
    unstable: int = 0  # saves
    slow_report: int = 0  # times that the second look is not done yet
    lies: bool = False
    picky: str = ""  # refuses restores with this code, after their first piece
    forgets: bool = False  # saves, before it is told that they are safe
    deaf: int = 0  # times that it does not hear the last word
    rest: asyncio.Event | None = None  # when its tenant comes to rest
    gate: asyncio.Event | None = None  # to be passed before the last piece
    told: asyncio.Event = field(default_factory=asyncio.Event)  # that a save is safe
    streaming: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _report: dict[str, SaveReport] = field(default_factory=dict)

    async def __call__(self, request: Request) -> Answer:
        if request.headers.get(TOKEN_HEADER) != TOKEN:
            raise Refused(401, "unauthorized", "no")
        verb = f"{request.method} {request.path}"
        self.asked.append(verb)
        match verb:
            case "POST /save":
                if self.rest is not None:
                    await self.rest.wait()
                return self._save(str(request.param("id")), str(request.param("known")))
            case "GET /save":
                return self._tell(str(request.param("id")))
            case "POST /saved":
                return self._saved(str(request.param("id")), str(request.param("digest")))
            case "POST /thaw":
                self.frozen = False
                return Answer(204)
            case "POST /restore":
                return await self._restore(str(request.param("digest")), request.body)
            case "GET /state":
                state = State(self.restored, self.baseline, self.frozen, bound=True)
                answer = json_answer(state.encode())
                if self.rest is None or self.rest.is_set():
                    return answer
                return replace(answer, headers={protocol.HALTING: "true"})
        raise Refused(404, "no-such-path", verb)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def _save(self, identifier: str, known: str) -> Answer:
        self.frozen = True
        if self.baseline and self.baseline == known == self.digest:
            self._report[identifier] = self._reported(stable=True)
            return json_answer(Unchanged(known).encode())
        self._report.pop(identifier, None)
        return Answer(200, _Stream(self, identifier), {"content-type": protocol.GZIP})

    def finished(self, identifier: str) -> None:
        self.unstable -= 1
        self._report[identifier] = self._reported(stable=self.unstable < 0)

    def _reported(self, *, stable: bool) -> SaveReport:
        sha256 = "0" * 64 if self.lies else self.digest
        return SaveReport(sha256, len(self.data), 3, 1234, stable, "print", skipped=self.skipped)

    def _tell(self, identifier: str) -> Answer:
        self.slow_report -= 1
        if self.slow_report >= 0:
            raise Refused(409, "save-running", "not yet")
        if identifier not in self._report:
            raise Refused(409, "save-running", "it has not come to its end")
        return json_answer(self._report[identifier].encode())

    def _saved(self, identifier: str, digest: str) -> Answer:
        self.deaf -= 1
        if self.deaf >= 0:
            raise Unreachable("nobody there")
        if self.forgets:
            raise Refused(404, "no-such-save", "there is no such save any more")
        assert self._report[identifier].sha256 == digest
        self.baseline, self.may_stop = digest, True
        self.told.set()
        return Answer(204)

    async def _restore(self, digest: str, body: Body) -> Answer:
        if self.restored == digest:
            return json_answer(RestoreReport(True, "c1", self.skipped).encode())
        if self.restored:
            raise Refused(409, "restored-already", "another version is in it")
        self.frozen = True
        if self.picky:
            await anext(body)
            raise Refused(422, self.picky, "not this")
        try:
            pieces = [piece async for piece in body]
        except Broken as error:
            raise Unreachable(str(error)) from error
        data = b"".join(pieces)
        if self.gate is not None:
            self.streaming.release()
            await self.gate.wait()
        if hashlib.sha256(data).hexdigest() != digest:
            raise Refused(422, "bad-archive", "other bytes")
        self.data, self.restored, self.baseline = data, digest, digest
        return json_answer(RestoreReport(False, "c1", self.skipped).encode())


class _Stream(Body):
    """Overlays on their way out; a stream that is not read to its end lets the tenant run on."""

    def __init__(self, agent: Pretender, identifier: str) -> None:
        self.length = None
        self._agent = agent
        self._pieces = self._cut()
        self._identifier = identifier
        self._complete = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._pieces)

    async def _cut(self) -> AsyncIterator[bytes]:
        agent, data = self._agent, self._agent.data
        starts = range(0, len(data), PIECE)
        for number, start in enumerate(starts):
            if agent.breaks_after == number:
                raise Unreachable("dead")
            if start == starts[-1] and agent.gate is not None:
                agent.streaming.release()
                await agent.gate.wait()
            yield data[start : start + PIECE]
        self._complete = True
        agent.finished(self._identifier)

    async def close(self) -> None:
        if not self._complete:
            self._agent.frozen = False
