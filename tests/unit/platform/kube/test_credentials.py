"""Credentials that change while we run: token files and plugins."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock
from boilerhouse.platform.kube import credentials
from boilerhouse.platform.kube.config import from_kubeconfig
from boilerhouse.platform.kube.credentials import (
    Certificate,
    Credential,
    Files,
    Plugin,
    PluginCommand,
)
from boilerhouse.platform.kube.status import Unauthorized

pytestmark = pytest.mark.processes

V1 = "client.authentication.k8s.io/v1"


def answer(**status: str) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def program(tmp_path: Path, *lines: str) -> str:
    """Write a shell script that counts its runs and does what the lines say."""
    path = tmp_path / "plugin"
    text = "\n".join(["#!/bin/sh", f"echo run >> '{tmp_path}/runs'", *lines])
    path.write_text(text + "\n")
    path.chmod(0o755)
    return str(path)


def runs(tmp_path: Path) -> int:
    path = tmp_path / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0


def plugin(command: str, clock: FakeClock | None = None, hint: str = "") -> Plugin:
    made = PluginCommand(V1, command, ("--flag", "a b"), (("MORE", "x"),), hint)
    return Plugin(made, clock=clock)


async def test_a_plugin_gives_a_token_once(tmp_path: Path) -> None:
    """Many calls at once run the program once."""
    source = plugin(program(tmp_path, f"echo '{answer(token='abc')}'"))
    found = await asyncio.gather(*(source.current() for _ in range(5)))
    assert set(found) == {Credential((("authorization", "Bearer abc"),))}
    assert runs(tmp_path) == 1


async def test_a_plugin_is_told_what_it_needs(tmp_path: Path) -> None:
    """Arguments, environment and KUBERNETES_EXEC_INFO reach it; it cannot ask the user."""
    script = program(
        tmp_path,
        f'echo "$1|$2|$MORE|$KUBERNETES_EXEC_INFO" > "{tmp_path}/seen"',
        "read line && exit 9",
        f"echo '{answer(token='abc')}'",
    )
    await plugin(script).current()
    flag, value, more, info = (tmp_path / "seen").read_text().strip().split("|")
    assert (flag, value, more) == ("--flag", "a b", "x")
    assert json.loads(info) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


async def test_an_expired_answer_is_fetched_again(tmp_path: Path) -> None:
    """Until shortly before its expiry it is kept, then the program runs again."""
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    text = answer(token="abc", expirationTimestamp="2026-01-01T01:00:00Z")
    source = plugin(program(tmp_path, f"echo '{text}'"), clock)
    await source.current()
    clock.advance(3580)
    await source.current()
    assert runs(tmp_path) == 1
    clock.advance(15)
    await source.current()
    assert runs(tmp_path) == 2


async def test_a_refused_answer_is_fetched_again(tmp_path: Path) -> None:
    """After a 401 the cached token is worthless, whatever its expiry says."""
    source = plugin(program(tmp_path, f"echo '{answer(token='abc')}'"))
    refused = await source.current()
    for _ in range(5):  # many calls were refused at once
        await source.renew(refused)
    await source.current()
    assert runs(tmp_path) == 2


async def test_a_late_refusal_does_not_throw_away_the_successor(tmp_path: Path) -> None:
    """A 401 for the old token, arriving after the new one was fetched, changes nothing."""
    count = f"$(wc -l < '{tmp_path}/runs')"
    text = answer(token="t-N").replace('"', '\\"').replace("N", count)
    source = plugin(program(tmp_path, f'echo "{text}"'))
    old = await source.current()
    await source.renew(old)
    new = await source.current()
    assert new != old
    await source.renew(old)
    assert await source.current() == new
    assert runs(tmp_path) == 2


async def test_a_plugin_may_give_a_certificate(tmp_path: Path) -> None:
    """Certificate and key instead of a token."""
    text = answer(clientCertificateData="C", clientKeyData="K")
    source = plugin(program(tmp_path, f"echo '{text}'"))
    assert await source.current() == Credential((), Certificate(b"C", b"K"))


async def test_a_missing_program_is_named_with_its_hint() -> None:
    """The user is told what to install."""
    with pytest.raises(Unauthorized, match=r"'/nonexistent/aws'.*No such file.*Get it at x") as e:
        await plugin("/nonexistent/aws", hint="Get it at x").current()
    assert e.value.status_code == 401


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("echo 'not logged in' >&2; exit 3", "ended with code 3: not logged in"),
        ("exit 3", "it said nothing"),
        ("echo hello", "something else than JSON"),
        ("echo '{}'", "printed a \\? \\?, not a"),
        (f"echo '{answer().replace('/v1', '/v1beta1')}'", "v1beta1"),
        (f"echo '{answer()}'", "neither a token nor"),
        (f"echo '{answer(clientKeyData='K')}'", "neither a token nor"),
        (f"echo '{answer(token='a', expirationTimestamp='soon')}'", "expirationTimestamp"),
    ],
)
async def test_a_plugin_that_fails_is_quoted(tmp_path: Path, line: str, says: str) -> None:
    """What the program printed or how it ended is in the message."""
    with pytest.raises(Unauthorized, match=says):
        await plugin(program(tmp_path, line)).current()


async def test_a_plugin_has_a_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that hangs is killed, and the next call may try again."""
    monkeypatch.setattr(credentials, "PLUGIN_TIMEOUT", 0.2)
    source = plugin(program(tmp_path, "exec sleep 60"))
    with pytest.raises(Unauthorized, match=r"did not end within 0\.2 s"):
        await source.current()


async def test_a_plugin_that_floods_us_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is read to the end but not kept."""
    monkeypatch.setattr(credentials, "PLUGIN_OUTPUT_LIMIT", 1000)
    with pytest.raises(Unauthorized, match="something else than JSON"):
        await plugin(program(tmp_path, "head -c 5000000 /dev/zero")).current()


async def test_a_plugin_named_in_a_kubeconfig(tmp_path: Path) -> None:
    """Its path is relative to the file, and it hears of the cluster if it wants to."""
    program(
        tmp_path,
        f'echo "$KUBERNETES_EXEC_INFO" > "{tmp_path}/seen"',
        f"echo '{answer(token='abc')}'",
    )
    path = tmp_path / "config"
    path.write_text(f"""
current-context: a
contexts: [{{name: a, context: {{cluster: c, user: u}}}}]
clusters:
- name: c
  cluster:
    server: https://kube
    extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: x}}}}]
users:
- name: u
  user:
    exec: {{apiVersion: {V1}, command: ./plugin, provideClusterInfo: true, args: null}}
""")
    config = from_kubeconfig(path)
    assert (await config.credentials.current()).headers == (("authorization", "Bearer abc"),)
    spec = json.loads((tmp_path / "seen").read_text())["spec"]
    assert spec == {
        "interactive": False,
        "cluster": {"server": "https://kube", "config": {"audience": "x"}},
    }


async def test_a_token_file_is_looked_at_again_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any 401 a rotated token is picked up, and not by reading the file for every call."""
    token = tmp_path / "token"
    token.write_text("one")
    source = Files(token=token)
    assert (await source.current()).headers == (("authorization", "Bearer one"),)
    token.write_text("two")
    assert (await source.current()).headers == (("authorization", "Bearer one"),)
    monkeypatch.setattr(credentials, "FILE_MAX_AGE", -1.0)
    assert (await source.current()).headers == (("authorization", "Bearer two"),)
