"""`boilerhouse up` as a process: what it prints, how it stops, what it refuses."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from boilerhouse.embedded.apiserver.http.kubeconfig import kept_port
from boilerhouse.run.stopping import ONE_CTRL_C

pytestmark = [pytest.mark.processes, pytest.mark.slow]  # each test is a process or two


def start(data: Path, *options: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "boilerhouse.main", "up", "--data", str(data)]
    command += ["--port", "0", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)


def banner(process: subprocess.Popen[str]) -> str:
    """Wait until it says that it is up; return all that it said."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Stop it"):
            return "".join(lines)
    pytest.fail(f"it ended with {process.wait()}: {process.stderr and process.stderr.read()}")


@contextmanager
def running(data: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    process = start(data, *options)
    try:
        banner(process)
        yield process
    finally:
        process.kill()
        process.communicate()


def client(data: Path) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(data / "kube.sock"))
    return httpx2.Client(base_url="http://local", transport=transport)


CONFIG_MAPS = "/api/v1/namespaces/boilerhouse/configmaps"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_where_everything_is_and_stops_when_asked(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Addresses on stdout, JSON lines on stderr, exit code 0, nothing left but the data."""
    data = tmp_path / "data"
    process = start(data, "--kube-port", "0")
    text = banner(process)
    port = kept_port(data / "kubeconfig")
    assert f"https://127.0.0.1:{port}" in text
    assert f"export KUBECONFIG={data / 'kubeconfig'}" in text
    api = re.search(r"API +(http://\S+)", text)
    assert api is not None
    assert f"export BOILERHOUSE_URL={api[1]}" in text
    assert "Ctrl-C" in text
    for name in ("kubeconfig", "kube.sock"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    with client(data) as local:
        names = {i["metadata"]["name"] for i in local.get("/api/v1/namespaces").json()["items"]}
        assert "boilerhouse" in names
        assert local.get("/apis/boilerhouse.dev/v1alpha1").status_code == 200
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    events = [json.loads(line)["event"] for line in errors.splitlines()]
    events = [event for event in events if event != "loop.stalled"]  # on a machine that is busy
    assert events[0] == "up.serving"
    assert events[-1] == "up.stopped"
    assert not (data / "kube.sock").exists()


def test_what_was_written_and_the_port_survive_a_kill(tmp_path: Path) -> None:
    """Killed and started again, it is at the same address and knows what it had acknowledged."""
    with running(tmp_path, "--kube-port", "0") as process, client(tmp_path) as local:
        body = {"metadata": {"name": "kept"}, "data": {"a": "1"}}
        assert local.post(CONFIG_MAPS, json=body).status_code == 201
        port = kept_port(tmp_path / "kubeconfig")
        config = (tmp_path / "kubeconfig").read_text()
        process.kill()
        process.wait()
    with running(tmp_path), client(tmp_path) as local:
        assert local.get(f"{CONFIG_MAPS}/kept").json()["data"] == {"a": "1"}
        assert kept_port(tmp_path / "kubeconfig") == port
        assert (tmp_path / "kubeconfig").read_text() == config


def test_a_second_up_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """One sentence that names the directory, exit code 1, and the first one does not notice."""
    with running(tmp_path, "--kube-port", "0"):
        second = start(tmp_path)
        out, errors = second.communicate(timeout=20)
        assert (second.returncode, out) == (1, "")
        assert errors.count("\n") == 1
        assert str(tmp_path) in errors
        with client(tmp_path) as local:
            assert local.get("/readyz").status_code == 200


def test_a_port_that_is_taken_is_refused_when_it_was_asked_for(tmp_path: Path) -> None:
    """Asked for by name, a port is that one or none."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(tmp_path, "--kube-port", str(port))
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors.startswith("boilerhouse: cannot listen on 127.0.0.1:")
    assert errors.count("\n") == 1


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """A file where the directory should be is one sentence, not a traceback."""
    (tmp_path / "file").touch()
    process = start(tmp_path / "file" / "data")
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert errors.count("\n") == 1
    assert "Traceback" not in errors


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    """With a request in flight that never ends, the second Ctrl-C ends the process at once: 130."""
    with running(tmp_path, "--kube-port", "0") as process:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(tmp_path / "kube.sock"))
        peer.sendall(b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        with client(tmp_path) as local:
            local.get("/readyz")  # by now the other request has been taken up, too
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert any("up.stopping" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)  # the same Ctrl-C, passed on by make
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2 * ONE_CTRL_C)
        process.send_signal(signal.SIGINT)
        assert process.wait(3) == 130
        peer.close()


def test_a_kubernetes_api_that_others_can_reach_is_warned_of(tmp_path: Path) -> None:
    """Served on every address it says so in the log: the token is the only guard then."""
    process = start(tmp_path, "--kube-port", "0", "--kube-host", "0.0.0.0")
    banner(process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    lines = [json.loads(line) for line in errors.splitlines()]
    (warning,) = (line for line in lines if "open_to_the_network" in line["event"])
    assert (warning["level"], warning["host"]) == ("warning", "0.0.0.0")


@pytest.mark.parametrize(
    ("no_color", "term", "plain"),
    [("1", "xterm", True), ("", "dumb", True), ("", "xterm", False)],
)
def test_on_a_terminal_log_lines_are_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, term: str, plain: bool
) -> None:
    """No JSON there; colours unless NO_COLOR or the kind of terminal says otherwise."""
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    ours, theirs = pty.openpty()
    process = start(tmp_path, "--kube-port", "0", stderr=theirs)
    os.close(theirs)
    banner(process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    text = ""
    try:
        while piece := os.read(ours, 4096):
            text += piece.decode()
    except OSError:
        pass  # how a terminal says that the other end is closed
    os.close(ours)
    assert "up.serving" in text
    assert '"event"' not in text
    assert ("\x1b[" in text) is not plain


@pytest.mark.parametrize("module", ["re2", "cryptography"])
@pytest.mark.parametrize("options", [[], ["--strict"]])  # in plain words, and by the command line
def test_a_missing_extra_is_named(tmp_path: Path, module: str, options: list[str]) -> None:
    """One line that says what to install, instead of a traceback."""
    hidden = f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'boilerhouse'"
    program = f"{hidden}; from boilerhouse.main import main; main()"
    command = [sys.executable, "-c", program, "up", "--data", str(tmp_path / "d"), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "pip install 'boilerhouse[embedded]'" in done.stderr
    assert (module in done.stderr, done.stderr.count("\n")) == (True, 1)


WORKLOADS = "/apis/boilerhouse.dev/v1alpha1/namespaces/{}/boilerhouseworkloads"


def workload(name: str, access: str = "none") -> dict[str, object]:
    spec = {
        "version": "1",
        "image": {"ref": "host"},
        "resources": {"vcpus": 0.1, "memoryMb": 64, "diskGb": 1},
        "network": {"access": access},
        "entrypoint": {"cmd": "/bin/sleep", "args": ["1000"]},
    }
    kind = {"apiVersion": "boilerhouse.dev/v1alpha1", "kind": "BoilerhouseWorkload"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def test_what_this_machine_cannot_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, to kubectl as a warning, and on the object; of other namespaces as an Event."""
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no slirp4netns, nor anything else
    data = tmp_path / "data"
    process = start(data)
    try:
        assert "Note: network access `unrestricted` needs slirp4netns" in banner(process)
        with client(data) as kube:
            ours = WORKLOADS.format("boilerhouse")
            made = kube.post(ours, json=workload("web", "unrestricted"))
            assert made.status_code == 201
            assert made.headers["warning"].startswith('299 - "spec.network.access: ')
            assert "slirp4netns" in made.headers["warning"]
            wait_for(lambda: phase_of(kube, f"{ours}/web") == "Error")
            assert "slirp4netns" in kube.get(f"{ours}/web").json()["status"]["detail"]

            kube.post("/api/v1/namespaces", json={"metadata": {"name": "other"}})
            made = kube.post(WORKLOADS.format("other"), json=workload("lost"))
            assert "nothing looks after namespace other" in made.headers["warning"]
            events = "/api/v1/namespaces/other/events?fieldSelector=reason%3DNotWatched"
            wait_for(lambda: len(kube.get(events).json()["items"]) == 1)
    finally:
        process.terminate()
        process.communicate()
    again = start(data)
    try:
        assert "Note: nothing looks after namespace other" in banner(again)
    finally:
        again.kill()
        again.communicate()


def phase_of(kube: httpx2.Client, path: str) -> object:
    return kube.get(path).json().get("status", {}).get("phase")


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_unsandboxed_is_refused_and_says_why(tmp_path: Path) -> None:
    """It cannot be true, so it is not pretended; nothing is made."""
    refused = start(tmp_path / "data", "--unsandboxed")
    out, errors = refused.communicate(timeout=60)
    assert (refused.returncode, out) == (1, "")
    assert "/run/boilerhouse" in errors and errors.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_strict_starts_only_where_limits_hold(tmp_path: Path) -> None:
    """Either it runs, or one sentence says which limits cannot be enforced."""
    process = start(tmp_path, "--strict", "--kube-port", "0")
    assert process.stdout is not None
    first = process.stdout.readline()
    if first:
        assert "is up" in first
        process.kill()
        process.communicate()
        return
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "--strict: limits cannot be enforced" in errors
