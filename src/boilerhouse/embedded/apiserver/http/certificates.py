"""Makes certificates: an authority, and a server certificate signed by it. Pure; PEM in, PEM out.

authority(now) ──► key + certificate ──┐
                                       ├─► server(…) ──► key + certificate
hosts ─────────────────────────────────┘

Apart from pki.py because of `cryptography`: 20 MiB and a fifth of a second that only the start
pays which really has to make one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A clock that is a little behind must not find a certificate of the future.
BACKDATE = timedelta(hours=1)


def authority(now: datetime, life: timedelta) -> bytes:
    """Make a certificate authority: its private key and its certificate in one PEM text."""
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own, so that two authorities are never mistaken for each other.
    name = _name(f"boilerhouse-ca-{x509.random_serial_number():x}"[:40])
    builder = (
        _builder(name, name, key, now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _pem(key, builder.sign(key, hashes.SHA256()))


def server(authority: bytes, now: datetime, life: timedelta, hosts: Sequence[str]) -> bytes:
    """Make a server certificate for these addresses and names: key and certificate in one PEM."""
    ca_key, ca = load_pem_private_key(authority, None), x509.load_pem_x509_certificate(authority)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name("boilerhouse-api"), ca.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
    )
    return _pem(key, builder.sign(ca_key, hashes.SHA256()))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + life)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    """An authority signs certificates, a server signs handshakes; neither does anything else."""
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> bytes:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
