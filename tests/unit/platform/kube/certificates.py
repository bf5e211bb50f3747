"""A certificate authority that lives as long as a test."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from boilerhouse.platform.kube.credentials import Certificate


class Authority:
    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority")
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str) -> Certificate:
        """Sign a certificate for a host (by name or address) or a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        host: x509.GeneralName
        try:
            host = x509.IPAddress(ipaddress.ip_address(common_name))
        except ValueError:
            host = x509.DNSName(common_name)
        certificate = (
            _builder(_name(common_name), self._name, key.public_key())
            .add_extension(x509.SubjectAlternativeName([host]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Certificate(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def server(self, host: str) -> ssl.SSLContext:
        """Build the context of a server that shows a certificate for `host`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self.issue(host)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("cert", "key")]
            for path, pem in zip(paths, pair, strict=True):
                path.write_bytes(pem)
            context.load_cert_chain(paths[0], paths[1])
        return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
    )
