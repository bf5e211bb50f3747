"""The certificates and the token of the TLS port, kept in DIR/pki.

ca.pem (key + certificate) ──signs──► server.pem (key + certificate) ──► TLS port
token ─────────────────────────────────────────────────────────────────► kubeconfig

Key and certificate share one file, so that one rename replaces both: a crash can never leave a key
beside another key's certificate. The authority lives for ten years and is kept, since copies of
the kubeconfig trust it; the server's certificate lives for one and is renewed a month early, at
start or while running.

Whether a pair still serves is found out by shaking hands with it in memory, as a client would.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

from boilerhouse.core.clock import Clock, token
from boilerhouse.platform.files.durable import private_directory, write_file

LOOPBACK = ("127.0.0.1", "::1", "localhost")
CA_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)


class PkiError(Exception):
    """What lies in DIR/pki cannot be used; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Pki:
    """What a TLS listener and a kubeconfig need."""

    ca: bytes  # PEM, the certificate alone
    server: Path  # PEM, key and certificate
    token: str


def ensure(directory: Path, clock: Clock, hosts: Sequence[str] = LOOPBACK) -> Pki:
    """Return the authority, the server certificate and the token; make what is missing or old."""
    private_directory(directory)
    now, path = clock.now(), directory / "ca.pem"
    expires = _authority_expires(path)
    # A server certificate must never outlive the authority that signed it.
    if expires is None or expires - now < SERVER_LIFE + RENEW_BEFORE:
        certificates = _makers()
        write_file(path, certificates.authority(now, CA_LIFE))
    renew(directory, clock, hosts)
    return Pki(
        ca=_certificate(path), server=directory / "server.pem", token=_token(directory / "token")
    )


def renew(directory: Path, clock: Clock, hosts: Sequence[str] = LOOPBACK) -> bool:
    """Replace the server certificate if it is absent or near its end; say whether it was."""
    ca, server, now = directory / "ca.pem", directory / "server.pem", clock.now()
    expires = _server_expires(_certificate(ca), server, hosts)
    if expires is not None and expires - now >= RENEW_BEFORE:
        return False
    certificates = _makers()
    write_file(server, certificates.server(ca.read_bytes(), now, SERVER_LIFE, hosts))
    return True


def _makers() -> ModuleType:
    """Import what makes certificates: heavy, and needed once a year."""
    try:
        from boilerhouse.embedded.apiserver.http import certificates
    except ModuleNotFoundError as error:
        raise PkiError(
            f"certificates cannot be made without {error.name}: pip install 'boilerhouse[embedded]'"
        ) from error
    return certificates


def _authority_expires(path: Path) -> datetime | None:
    """Say until when the authority is good; None when there is none yet."""
    if not path.exists():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=_certificate(path).decode("ascii"))
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        (found,) = context.get_ca_certs()
    except (ssl.SSLError, ValueError) as error:
        raise PkiError(
            f"{path} is not a key with its certificate ({error}); "
            f"remove {path.parent} to have new ones made"
        ) from error
    return _moment(found["notAfter"])


def _server_expires(ca: bytes, server: Path, hosts: Sequence[str]) -> datetime | None:
    """Say until when the server's pair is good for these hosts; None if it is of no use now."""
    if not server.exists():
        return None
    try:
        return min(_shake_hands(ca, server, host) for host in hosts)
    except (ssl.SSLError, ValueError):
        # Another authority's, expired, for other hosts, or broken: one remedy, a new one.
        return None


def _shake_hands(ca: bytes, server: Path, host: str) -> datetime:
    """Connect a client that trusts `ca` with a server that shows `server`, over two buffers."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(server)
    trusting = ssl.create_default_context(cadata=ca.decode("ascii"))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        trusting.wrap_bio(down, up, server_hostname=host),
        serving.wrap_bio(up, down, server_side=True),
    )
    waiting = list(ends)
    for _ in range(8):  # TLS 1.3 takes two rounds; a handshake that takes more is none
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    shown = ends[0].getpeercert()
    if waiting or not shown:
        raise ValueError("the handshake did not end")
    return _moment(shown["notAfter"])


def _moment(text: object) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(text)), UTC)


def _certificate(path: Path) -> bytes:
    """Return the certificate of a file that holds a key, too."""
    head, mark, tail = path.read_bytes().partition(b"-----BEGIN CERTIFICATE-----")
    return mark + tail if mark else head


def _token(path: Path) -> str:
    try:
        kept = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        kept = ""
    if not kept:
        kept = token(32)
        write_file(path, kept.encode("ascii"))
    return kept
