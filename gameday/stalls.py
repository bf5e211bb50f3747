"""What held the event loop: images, interim answers, tiny frames, dripping bodies, huge objects."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import struct
import tarfile
import time

import httpx2

from gameday.latency import again_and_again
from gameday.scenario import Broke, held, scenario
from gameday.stage import Body, Stage, said

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@scenario("importing an image, good or hostile, holds up no other caller")
def image_import(stage: Stage) -> str:
    with stage.others() as others:
        hostile = stage.rest.post("/images", content=negative_size(), headers=TAR)
        held(
            400 <= hostile.status_code < 500, f"a negative size was answered {hostile.status_code}"
        )
        stage.rest.post("/images", content=many_members(100_000), headers=TAR)
    return f"negative size {hostile.status_code}; {others}"


TAR = {"Content-Type": "application/x-tar"}


def negative_size() -> bytes:
    """Return a tar whose only member says that it has a negative size."""
    header = bytearray(tarfile.TarInfo("layer").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 4 + struct.pack(">q", -1024)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header) + bytes(1024)


def many_members(count: int) -> bytes:
    """Return a compressed tar with many empty members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        member = tarfile.TarInfo()
        for number in range(count):
            member.name = f"f{number}"
            archive.addfile(member)
    return out.getvalue()


INTERIM = """
import socket
server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(('0.0.0.0', 8080)); server.listen(64)
import threading
def answer(client):
    try:
        if b'/1xx' in client.recv(65536):
            hints = b'HTTP/1.1 103 Early Hints\\r\\nLink: </a>\\r\\n\\r\\n' * 100
            while True: client.sendall(hints)
        client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok'); client.close()
    except OSError: pass
while True:
    client, _ = server.accept()
    threading.Thread(target=answer, args=(client,), daemon=True).start()
"""


@scenario("endless interim answers of a tenant's server hold up no other caller")
def interim_answers(stage: Stage) -> str:
    expose: Body = {"access": "none", "expose": [{"guest": 8080}]}
    entrypoint = {"cmd": "python3", "args": ["-c", INTERIM]}
    stage.workload("evil", network=expose, entrypoint=entrypoint)
    instance = stage.instance("evil", "evil")

    def ask(path: str) -> set[int]:
        """Have eight callers ask the tenant's server again and again."""
        url, seen = f"/tenants/evil/workloads/evil/proxy/{path}", set()
        for _ in again_and_again():
            asked = stage.codes(8, lambda _: stage.rest.get(url, timeout=60))
            seen |= {future.result() for future in asked}
        return seen

    # Eight callers hold up others a little whatever they are answered: that is what is compared.
    with stage.others("with ordinary answers", lambda: ask("")) as others:
        codes = ask("1xx")
    stage.rest.post(f"/instances/{instance}/destroy")
    held(codes <= {502, 504}, f"the proxy answered {codes}")
    return f"answered {sorted(codes)}; {others}"


@scenario("a million tiny WebSocket frames hold up no other caller")
def tiny_frames(stage: Stage) -> str:
    stage.workload("chatty")
    instance = stage.instance("chatty", "chatty")
    with stage.others() as others:
        sent = flood(stage.up.port, f"/api/v1/instances/{instance}/attach?stdin=false", seconds=6)
    stage.rest.post(f"/instances/{instance}/destroy")
    return f"{sent:,} frames; {others}"


def flood(port: int, path: str, seconds: float) -> int:
    """Open a WebSocket and send frames of one byte for a while; return how many were taken."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        key = base64.b64encode(os.urandom(16)).decode()
        client.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n".encode()
        )
        answer = client.recv(4096)
        if b" 101 " not in answer.split(b"\r\n")[0]:
            raise Broke(f"no WebSocket: {answer[:200]!r}")
        # A masked binary frame of two bytes: channel 0, one byte of input.
        frames = (b"\x82\x82\0\0\0\0" + b"\x00x") * 1000
        sent = 0
        deadline = time.monotonic() + seconds
        client.settimeout(1)
        while time.monotonic() < deadline:
            try:
                client.sendall(frames)
                sent += 1000
            except TimeoutError:
                continue
            except OSError:
                break  # closed on us, which is an answer too
        return sent


@scenario("bodies that drip are ended, and others upload meanwhile")
def dripping_bodies(stage: Stage) -> str:
    clients = [drip(stage.up.port) for _ in range(8)]
    began = time.monotonic()
    ended = 0.0
    try:
        while time.monotonic() - began < 75 and any(clients):
            for number, client in enumerate(clients):
                if client is None:
                    continue
                try:
                    client.sendall(b" ")
                    if client.recv(4096) is not None:
                        clients[number] = None
                        client.close()
                        ended = time.monotonic() - began
                except BlockingIOError:
                    continue
                except OSError:
                    clients[number] = None
                    ended = time.monotonic() - began
            time.sleep(1)
    finally:
        left = [client for client in clients if client is not None]
        for client in left:
            client.close()
    held(not left, f"{len(left)} of 8 dripping bodies were still read after 75 s")
    return f"all eight ended after at most {ended:.0f} s"


def drip(port: int) -> socket.socket | None:
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.sendall(
        f"POST /api/v1/tenants/drip/claim HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n".encode()
    )
    client.setblocking(False)
    return client


@scenario("definitions with thousands of rules, too many or just not, hold up no other caller")
def huge_definition(stage: Stage) -> str:
    many, too_many = definition("rules", rules(9_000)), definition("rules", rules(20_000))
    with stage.others() as others:
        for _ in again_and_again():
            refused = stage.kube.post(CRDS, json=too_many)
            held(refused.status_code == 422, f"20,000 rules were answered {said(refused)}")
            taken = stage.kube.post(CRDS, json=many)
            # 409: that of the last round is not gone yet.
            held(taken.status_code in (201, 409), f"9,000 rules were answered {said(taken)}")
            stage.kube.delete(f"{CRDS}/rules.gameday.example.com")
    return f"20,000 rules refused, 9,000 taken; {others}"


def rules(count: int) -> Body:
    """Return a schema with so many rules."""
    spec = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": f"self.n < {number}"} for number in range(count)],
    }
    return {"type": "object", "properties": {"spec": spec}}


def definition(plural: str, schema: Body) -> Body:
    names = {"plural": plural, "singular": plural, "kind": plural.title(), "listKind": "RulesList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.gameday.example.com"},
        "spec": {
            "group": "gameday.example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


@scenario("deleting a collection of 20,000 objects deletes all and holds up no other caller")
def delete_collection(stage: Stage) -> str:
    maps = "/api/v1/namespaces/boilerhouse/configmaps"

    def make(first: int) -> httpx2.Response:
        for number in range(first, first + 2_500):
            body = {"metadata": {"name": f"gameday-{number}", "labels": {"gameday": "yes"}}}
            made = stage.kube.post(maps, json=body)
        return made

    made = stage.codes(8, lambda number: make(number * 2_500))
    held({future.result() for future in made} == {201}, "20,000 objects could not be made")
    with stage.others() as others:
        answer = stage.kube.delete(maps, params={"labelSelector": "gameday=yes"})
        held(answer.status_code == 200, f"it was answered {answer.status_code} {answer.text[:200]}")
        left = stage.kube.get(maps, params={"labelSelector": "gameday=yes"}).json()["items"]
        held(not left, f"{len(left)} are left")
    return f"none left; {others}"


@scenario("no stall of the event loop so far had a second of its own processor time")
def watchdog(stage: Stage) -> str:
    stalls = [
        json.loads(line)
        for line in stage.up.log.read_text(errors="replace").splitlines()
        if '"loop.stalled"' in line
    ]
    worst = max(stalls, key=lambda one: float(one["processor_milliseconds"]), default=None)
    if worst is None:
        return "no stall above 100 ms"
    own = worst["processor_milliseconds"]
    seen = f"{len(stalls)} stalls above 100 ms, the worst with {own} ms of its own"
    held(own < 1000, f"{seen}: {str(worst.get('stack'))[-600:]}")
    return seen
