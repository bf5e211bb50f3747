"""The certificates of the TLS port: made once, kept, renewed in time, private."""

from __future__ import annotations

import stat
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from boilerhouse.core.clock import FakeClock, SystemClock
from boilerhouse.embedded.apiserver.http import kubeconfig, pki


def test_a_first_start_makes_an_authority_a_server_certificate_and_a_token(tmp_path: Path) -> None:
    """An empty directory becomes a full one, and nobody but the owner can read any of it."""
    made = pki.ensure(tmp_path / "pki", SystemClock())
    assert made.ca.startswith(b"-----BEGIN CERTIFICATE-----")
    assert b"PRIVATE" not in made.ca
    assert len(made.token) >= 40
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "pki").iterdir()}
    assert modes == {"ca.pem": 0o600, "server.pem": 0o600, "token": 0o600}
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700


def test_a_restart_keeps_everything(tmp_path: Path) -> None:
    """Copies of the kubeconfig stay valid: authority, certificate and token are the same."""
    first = pki.ensure(tmp_path, SystemClock())
    server = first.server.read_bytes()
    assert pki.ensure(tmp_path, SystemClock()) == first
    assert first.server.read_bytes() == server
    assert not pki.renew(tmp_path, SystemClock())


def test_a_certificate_near_its_end_is_renewed_by_the_same_authority(tmp_path: Path) -> None:
    """A month before the end the server gets a new certificate; clients need no new kubeconfig."""
    clock = FakeClock(SystemClock().now())
    first = pki.ensure(tmp_path, clock)
    server = first.server.read_bytes()
    clock.advance(pki.SERVER_LIFE - pki.RENEW_BEFORE - timedelta(days=1))
    assert not pki.renew(tmp_path, clock)
    clock.advance(timedelta(days=2))
    assert pki.renew(tmp_path, clock)
    assert first.server.read_bytes() != server
    assert pki.ensure(tmp_path, clock).ca == first.ca


def test_an_authority_near_its_end_is_replaced_with_all_it_signed(tmp_path: Path) -> None:
    """No server certificate outlives its authority: both are made anew in time."""
    clock = FakeClock(SystemClock().now())
    first = pki.ensure(tmp_path, clock)
    clock.advance(pki.CA_LIFE - pki.SERVER_LIFE)
    # The handshake in memory looks at the machine's clock, so only the authority is judged here.
    second = pki.ensure(tmp_path, clock)
    assert second.ca != first.ca
    assert second.token == first.token


def test_a_certificate_for_other_hosts_is_replaced(tmp_path: Path) -> None:
    """Listening on another address takes a certificate that names it."""
    first = pki.ensure(tmp_path, SystemClock())
    server = first.server.read_bytes()
    wider = pki.ensure(tmp_path, SystemClock(), (*pki.LOOPBACK, "192.0.2.7"))
    assert wider.ca == first.ca
    assert wider.server.read_bytes() != server


def test_a_broken_server_certificate_is_replaced_and_a_broken_authority_refused(
    tmp_path: Path,
) -> None:
    """What can be made anew without harm is; losing the authority is for the user to decide."""
    made = pki.ensure(tmp_path, SystemClock())
    made.server.write_bytes(b"not a certificate")
    assert pki.ensure(tmp_path, SystemClock()).server.read_bytes().startswith(b"-----BEGIN")
    (tmp_path / "ca.pem").write_bytes(b"not a certificate")
    with pytest.raises(pki.PkiError, match="remove"):
        pki.ensure(tmp_path, SystemClock())


def test_the_kubeconfig_is_private_and_remembers_its_port(tmp_path: Path) -> None:
    """The file is 0600 whatever was there before, and the next start finds the port in it."""
    path = tmp_path / "kubeconfig"
    assert kubeconfig.kept_port(path) is None
    path.write_text("junk")
    assert kubeconfig.kept_port(path) is None
    kubeconfig.write(path, "https://127.0.0.1:6450", b"CA", "secret", "shop")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kubeconfig.kept_port(path) == 6450
    before = path.stat().st_ino
    kubeconfig.write(path, "https://127.0.0.1:6450", b"CA", "secret", "shop")
    assert path.stat().st_ino == before


def test_without_the_extra_the_sentence_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Installed without what one machine needs, it says how to install that."""
    module = "boilerhouse.embedded.apiserver.http.certificates"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.delattr(module, raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(pki.PkiError, match=r"pip install 'boilerhouse\[embedded\]'"):
        pki.ensure(tmp_path / "pki", SystemClock())
