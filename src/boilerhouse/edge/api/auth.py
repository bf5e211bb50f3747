"""Who calls, and what they may do.

Authorization ─► Auth.caller ─► Admin | Scoped ─► guard (the handler's scope) ─► handler

* **The key** (`BOILERHOUSE_API_KEY`) makes an admin. Without one the listener is bound to loopback
  only, and whoever can reach it is an admin: but then Host and Origin must be ours, since any web
  page can make a browser call 127.0.0.1, and DNS can be made to lead there.
* **A claim's token** (core/claimtoken.py) makes a scoped caller: one tenant, one workload, and the
  scopes of the workload's `apiAccess`, for as long as that very claim is Active.
* **What is presented is judged.** A token that is wrong, old or scoped never falls back to what a
  caller without any would be: a tenant does not become an admin because the listener is open.

Every handler says in its `opt` which scope it needs, or that it needs none (`PUBLIC`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from boilerhouse.core import claimtoken
from boilerhouse.core.clock import Clock
from boilerhouse.edge.api.errors import Problem
from boilerhouse.edge.api.informers import Informers
from boilerhouse.platform.kube.client import Client
from boilerhouse.platform.kube.status import NotFound
from boilerhouse.tenancy.claims.machine import ClaimPhase
from boilerhouse.tenancy.claims.objects import CLAIMS, Claim
from boilerhouse.tenancy.workloads.objects import WORKLOADS

PUBLIC = "public"
ADMIN = "admin"  # no token has this scope

HEALTH_READ = "health:read"
WORKLOADS_READ = "workloads:read"
TRIGGERS_READ = "agent-triggers:read"
TRIGGERS_WRITE = "agent-triggers:write"
INSTANCES_READ = "instances:read"  # look at it, read its logs
INSTANCES_EXEC = "instances:exec"  # run commands in it
TENANTS_READ = "tenants:read"

# Of a workload that does not say what its instances may do here.
DEFAULT_SCOPES = frozenset({TRIGGERS_READ, TRIGGERS_WRITE, WORKLOADS_READ, HEALTH_READ})

SCOPES = frozenset({PUBLIC, ADMIN, INSTANCES_READ, INSTANCES_EXEC, TENANTS_READ}) | DEFAULT_SCOPES

# A browser cannot set headers on a WebSocket: there the token comes as a subprotocol.
SUBPROTOCOL = "base64url.bearer.authorization.boilerhouse.dev."

_FORGOTTEN = 1024  # refused tokens remembered
_FORGOTTEN_SECONDS = 5.0

Connection = ASGIConnection[Any, Any, Any, Any]
Call = Request[Any, Any, Any]  # as handlers take it


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls. An admin sees everything, a scoped caller one tenant's one workload."""

    admin: bool
    tenant: str = ""
    workload: str = ""
    scopes: frozenset[str] = frozenset()

    def may(self, scope: str) -> bool:
        return self.admin or scope == PUBLIC or scope in self.scopes

    def sees(self, tenant: str | None, workload: str | None) -> bool:
        """Whether what belongs to this tenant and workload exists for the caller."""
        return self.admin or (self.tenant == tenant and self.workload == workload)


AN_ADMIN = Caller(admin=True)
NOBODY = Caller(admin=False)


class Auth:
    """Judges what callers present. `key` is the admin's, `signing` the one of claims' tokens."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        clock: Clock,
        *,
        signing: bytes,
        key: str = "",
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._signing = signing
        self._key = _digest(key) if key else None
        self._by_uid = informers.claims.index(lambda claim: (claim.metadata.uid,))
        self._refused: OrderedDict[str, float] = OrderedDict()

    @property
    def open(self) -> bool:
        """Whether there is no key, so that being able to connect is what makes an admin."""
        return self._key is None

    async def caller(self, token: str | None) -> Caller:
        """Return who presents `token`; None is nothing presented."""
        if token is None:
            if self._key is None:
                return AN_ADMIN
            _unauthorized("this needs a key: send `Authorization: Bearer <BOILERHOUSE_API_KEY>`")
        if self._key is not None and hmac.compare_digest(_digest(token), self._key):
            return AN_ADMIN
        uid = claimtoken.verify(self._signing, token)
        if uid is None and self._key is None:
            _unauthorized("this server has no key: call it without one, or with a claim's token")
        if uid is None:
            _unauthorized("the key or token is not valid")
        claim = await self._active(uid)
        if claim is None:
            _unauthorized("the token's claim is not Active any more")
        return Caller(
            admin=False,
            tenant=claim.spec.tenant_id,
            workload=claim.spec.workload_ref,
            scopes=await self._scopes(claim.spec.workload_ref),
        )

    async def _active(self, uid: str) -> Claim | None:
        """Return the claim of this UID if it is Active; the server has the last word on a no."""
        for claim in self._by_uid.get(uid):
            if _is_active(claim):
                return claim
        now = self._clock.monotonic()
        if now - self._refused.get(uid, -_FORGOTTEN_SECONDS) < _FORGOTTEN_SECONDS:
            return None
        # A claim that another process has just made Active may not have come here yet. The token
        # is genuine, so asking is worth it; not at every call of one whose time is over, though.
        listing = await self._client.list(CLAIMS)
        for claim in listing.items:
            if claim.metadata.uid == uid:
                self._informers.claims.observe(claim)
                if _is_active(claim):
                    return claim
        self._refused[uid] = now
        self._refused.move_to_end(uid)
        if len(self._refused) > _FORGOTTEN:
            self._refused.popitem(last=False)
        return None

    async def _scopes(self, workload: str) -> frozenset[str]:
        held = self._informers.workloads.get(self._client.namespace, workload)
        if held is None:
            try:
                held = await self._client.get(WORKLOADS, workload)
            except NotFound:
                return frozenset()
        access = held.spec.get("apiAccess") or {}
        scopes = frozenset(access.get("scopes") or DEFAULT_SCOPES)
        # `none` is no token at all; and what only admins may do cannot be given away.
        return frozenset() if "none" in scopes else scopes - {ADMIN, PUBLIC}


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Let a call through to a handler if its caller has the scope that the handler declares.

    The framework's own answers to OPTIONS declare none: they are for who may do everything.
    """
    scope = handler.opt.get("scope", ADMIN)
    auth: Auth = connection.app.state["auth"]
    call: Any = connection.scope  # ASGI's; it is told who calls
    headers = _headers(call)
    if auth.open:
        _check_local(headers)
    if scope == PUBLIC:
        call["user"] = NOBODY
        return
    caller = await auth.caller(_presented(headers, call.get("subprotocols", ())))
    if not caller.may(scope):
        wanted = "an admin's key" if scope == ADMIN else f"the scope {scope}"
        raise Problem(403, "Forbidden", f"this needs {wanted}", details={"scope": scope})
    call["user"] = caller


def caller_of(connection: Connection) -> Caller:
    """Return who calls, as the guard found."""
    caller = connection.scope["user"]
    assert isinstance(caller, Caller)
    return caller


def _headers(connection: Any) -> dict[bytes, str]:
    """Return the headers of a call; of several of one name, the first."""
    found: dict[bytes, str] = {}
    for name, value in connection["headers"]:
        found.setdefault(name.lower(), value.decode("latin-1"))
    return found


def _presented(headers: dict[bytes, str], offers: Iterable[str]) -> str | None:
    """Return the token of a call: a header, or one of the subprotocols that a WebSocket offers."""
    header = headers.get(b"authorization")
    if header is not None:
        kind, _, token = header.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            _unauthorized("only `Authorization: Bearer <key>` is understood")
        return token.strip()
    for offered in offers:
        if offered.startswith(SUBPROTOCOL):
            return _unpacked(offered.removeprefix(SUBPROTOCOL))
    return None


def _unpacked(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        _unauthorized("the token in the subprotocol is not base64url")


def _check_local(headers: dict[bytes, str]) -> None:
    """Refuse what a web page made a browser send: only our own pages and programs may call.

    Host is what the caller believes to talk to: another name that resolves to loopback is DNS
    rebinding. Origin names the page, which must be one that this very listener served.
    """
    host = headers.get(b"host", "")
    if not _is_ours(host):
        raise Problem(
            403,
            "HostRefused",
            f"without BOILERHOUSE_API_KEY only loopback names are answered, not {host!r}",
        )
    origin = headers.get(b"origin")
    if (origin is not None and not _is_page_of(origin, host)) or headers.get(b"sec-fetch-site") in (
        "cross-site",
        "same-site",
    ):
        raise Problem(
            403,
            "OriginRefused",
            f"without BOILERHOUSE_API_KEY pages of {origin or 'other sites'} may not call",
        )


def _is_page_of(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:  # such as `http://[`
        return False


@lru_cache(maxsize=64)  # nearly every call of a listener comes to one name
def _is_ours(host: str) -> bool:
    """Whether a Host header names this machine alone."""
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def is_loopback(name: str) -> bool:
    """Whether a host name or address means this machine alone."""
    if name.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _digest(text: str) -> bytes:
    # Of equal length whatever comes in, so that comparing tells nothing about the key.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _is_active(claim: Claim) -> bool:
    return (
        claim.status is not None
        and claim.status.phase == ClaimPhase.ACTIVE
        and claim.metadata.deletion_timestamp is None
    )


def _unauthorized(message: str) -> NoReturn:
    raise Problem(401, "Unauthorized", message, headers={"www-authenticate": "Bearer"})
