"""`boilerhouse up` with stdout and stderr that are gone, full, closed or never read: it serves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

pytestmark = pytest.mark.slow  # each test is a process

UP = [sys.executable, "-m", "boilerhouse.main", "up", "--port", "0", "--kube-port", "0", "--data"]


def local(data: Path) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(data / "kube.sock"))
    return httpx2.Client(base_url="http://local", transport=transport)


def until_ready(process: subprocess.Popen[bytes], data: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, f"it ended with {process.returncode}"
        if (data / "kubeconfig").exists():  # written when everything listens
            with local(data) as client:
                assert client.get("/readyz").text == "ok"
            return
        time.sleep(0.1)
    pytest.fail("it is not up after half a minute")


def stops_in_good_order(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that is full, and that nobody reads."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    yield writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def broken() -> Iterator[int]:
    """The end of a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.fixture
def full() -> Iterator[int]:
    """A file on a disk without room."""
    opened = os.open("/dev/full", os.O_WRONLY)
    yield opened
    os.close(opened)


@pytest.mark.parametrize("kind", ["unread", "broken", "full"])
def test_what_cannot_be_said_keeps_nothing_from_being_done(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Both streams fail; requests are answered, background work is done, the stop is orderly."""
    stream: int = request.getfixturevalue(kind)
    data = tmp_path / "data"
    process = subprocess.Popen([*UP, str(data)], stdout=stream, stderr=stream)
    with ended(process), local(data) as client:
        until_ready(process, data)
        assert client.get("/api/v1/namespaces/none/pods/none").json()["reason"] == "NotFound"
        maps = "/api/v1/namespaces/boilerhouse/configmaps"
        owner = client.post(maps, json={"metadata": {"name": "owner"}}).json()
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
        reference["uid"] = owner["metadata"]["uid"]
        client.post(maps, json={"metadata": {"name": "d", "ownerReferences": [reference]}})
        client.delete(f"{maps}/owner")
        for _ in range(100):
            if client.get(f"{maps}/d").status_code == 404:
                break
            time.sleep(0.1)
        else:
            pytest.fail("the dependent was not collected")
        assert client.get("/readyz").text == "ok"
        stops_in_good_order(process)


def test_a_refusal_is_no_traceback_even_if_nobody_hears_it(tmp_path: Path, broken: int) -> None:
    """What keeps it from starting is exit code 1, whether or not the sentence gets through."""
    (tmp_path / "file").touch()
    done = subprocess.run([*UP, str(tmp_path)], stdout=broken, stderr=broken, check=False)
    assert done.returncode == 1


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_obstacle(closed: tuple[int, ...], tmp_path: Path) -> None:
    """Started without stdin, stdout or stderr, no socket of ours takes their place."""
    data, log = tmp_path / "data", tmp_path / "log"
    redirects = " ".join(f"{number}>&-" for number in closed)
    command = f'exec "$@" {redirects}'
    with log.open("wb") as file:
        process = subprocess.Popen(["sh", "-c", command, "sh", *UP, str(data)], stderr=file)
    with ended(process):
        until_ready(process, data)
        for number in closed:
            assert Path(f"/proc/{process.pid}/fd/{number}").readlink() == Path(os.devnull)
        stops_in_good_order(process)
    assert "ssertion" not in log.read_text()


def test_a_second_interrupt_ends_it_although_nobody_reads(tmp_path: Path, unread: int) -> None:
    """Not even the last sentence is waited for."""
    data = tmp_path / "data"
    process = subprocess.Popen([*UP, str(data)], stdout=unread, stderr=unread)
    with ended(process), socket.socket(socket.AF_UNIX) as peer:
        until_ready(process, data)
        peer.connect(str(data / "kube.sock"))
        peer.sendall(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        with local(data) as client:
            client.get("/readyz")  # by now the other request has been taken up, too
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(4) == 130
