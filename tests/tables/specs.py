"""Specs of every kind, good and bad, as data: the same cases for Python and for an API server.

A bad case changes one thing in a good spec and names the fields that must be blamed, spelled as an
API server spells them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]

WORKLOAD, POOL, CLAIM, TRIGGER = (
    "BoilerhouseWorkload",
    "BoilerhousePool",
    "BoilerhouseClaim",
    "BoilerhouseTrigger",
)

# The least that each kind asks for.
LEAST: dict[str, Spec] = {
    WORKLOAD: {
        "version": "1",
        "image": {"ref": "host"},
        "resources": {"vcpus": 1, "memoryMb": 128, "diskGb": 1},
    },
    POOL: {"workloadRef": "agent", "size": 3},
    CLAIM: {"tenantId": "alice", "workloadRef": "agent"},
    TRIGGER: {"type": "webhook", "workloadRef": "agent", "tenant": {"static": "alice"}},
}

# Everything that each kind can say.
MOST: dict[str, Spec] = {
    WORKLOAD: {
        "version": "1.2.3-rc_1",
        "image": {"ref": "registry.example:5000/team/agent:1.2@sha256:" + "0123456789abcdef" * 4},
        "resources": {"vcpus": 0.25, "memoryMb": 4096, "diskGb": 10},
        "network": {
            "access": "restricted",
            "expose": [{"guest": 8080}, {"guest": 22}],
            "allowlist": ["example.com", "*.example.org"],
            "websocket": "/ws",
            "credentials": [
                {
                    "domain": "api.example.com",
                    "headers": [
                        {"name": "X-Team", "value": "blue team"},
                        {
                            "name": "Authorization",
                            "valueFrom": {"secretKeyRef": {"name": "api", "key": "token.txt"}},
                        },
                    ],
                }
            ],
        },
        "filesystem": {
            "overlayDirs": ["/workspace", "/home/user", "/root/.openclaw", "/work/..odd/...x"],
            "encryptOverlays": True,
            "restore": "live",
            "keepVersions": 10,
        },
        "idle": {
            "timeoutSeconds": 300,
            "action": "destroy",
            "watchDirs": ["/workspace", "/home/user/projects"],
            "releasedTTLSeconds": 86400,
        },
        "health": {
            "httpGet": {"path": "/healthz?full=1", "port": 8080},
            "intervalSeconds": 1,
            "unhealthyThreshold": 5,
        },
        "entrypoint": {
            "cmd": "/usr/bin/python3",
            "args": ["-m", "agent", ""],
            "workdir": "/workspace",
            "env": {"HOME": "/home/user", "_x.y-z": "ä\n"},
        },
        "apiAccess": {"scopes": ["tenants:read", "triggers.*"]},
        "hooks": {
            "preHibernate": {
                "command": ["sync"],
                "timeoutSeconds": 5,
                "onFailure": "fail",
            },
            "postRestore": {"command": ["/bin/sh", "-c", "touch /workspace/.back"]},
        },
        "hibernateWindowSeconds": 600,
    },
    POOL: {"workloadRef": "agent-2", "size": 0, "maxFillConcurrency": 10},
    CLAIM: {"tenantId": "Zoë Ångström <zoe@example.com>", "workloadRef": "a", "resume": False},
    TRIGGER: {
        "type": "telegram",
        "workloadRef": "agent",
        "tenant": {"from": "message.chat.id", "prefix": "tg-"},
        "driver": "claude-code",
        "driverOptions": {"model": "x", "deep": {"list": [1, None, {"a": True}]}},
        "guards": [{"type": "allowlist", "config": {"tenantIds": ["tg-1"]}}, {"type": "api"}],
        "config": {"botTokenSecretRef": {"name": "bot", "key": "token"}},
    },
}


@dataclass(frozen=True)
class Case:
    """One spec, and the fields to blame; none means that it is good."""

    kind: str
    title: str
    spec: Spec
    blamed: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.kind.removeprefix('Boilerhouse')}: {self.title}"


def changed(spec: Spec, changes: Mapping[str, object]) -> Spec:
    """Return a copy with values put at dotted paths; None takes the field away."""
    result = copy.deepcopy(spec)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return result


def _good(kind: str, title: str, changes: Mapping[str, object]) -> Case:
    return Case(kind, title, changed(LEAST[kind], changes))


def _bad(kind: str, title: str, changes: Mapping[str, object], *blamed: str) -> Case:
    spec = changed(LEAST[kind], changes)
    return Case(kind, title, spec, frozenset(f"spec.{field}" for field in blamed))


def _dirs(*dirs: str) -> dict[str, object]:
    return {"filesystem.overlayDirs": list(dirs)}


def _ports(*ports: int) -> dict[str, object]:
    return {"network.expose": [{"guest": port} for port in ports]}


def _headers(*headers: dict[str, object]) -> dict[str, object]:
    return {"network.credentials": [{"domain": "a.example", "headers": list(headers)}]}


_SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
_DIR = "filesystem.overlayDirs[0]"
_HEADER = "network.credentials[0].headers[0]"

GOOD_IMAGES = (
    "host",
    "web:1",
    "team/web",
    "a.b_c__d--e/f",
    "localhost:5000/web",
    "[::1]:5000/web",
    "Registry.Example/web:V_1.0-rc",
    "web@sha256:" + "a" * 64,
)
BAD_IMAGES = (
    "",
    "a b",
    "../../etc",
    "/etc",
    "a/../b",
    "a//b",
    "a/",
    "./a",
    "Web",
    "web:",
    "web:a b",
    "web:" + "a" * 129,
    "web@sha256:abc",
    "web@",
    "http://registry.example/web",
    "registry.example:port/web",
    "registry.example:/web",
    "-a/web",
    "web\n",
    "ä",
)

_WORKLOADS = [
    _good(WORKLOAD, "a Dockerfile in a folder", {"image": {"dockerfile": "agents/x/Dockerfile"}}),
    _good(WORKLOAD, "neighbours with one prefix", _dirs("/a", "/ab", "/a-b")),
    _good(WORKLOAD, "32 directories", _dirs(*(f"/d{n}" for n in range(32)))),
    _good(WORKLOAD, "a health command", {"health": {"exec": {"command": ["true"]}}}),
    _good(WORKLOAD, "no API access", {"apiAccess": {"scopes": ["none"]}}),
    _good(WORKLOAD, "never idle", {"idle": {"timeoutSeconds": 0}}),
    _good(WORKLOAD, "least processor", {"resources.vcpus": 0.01}),
    _bad(WORKLOAD, "no processor, as an integer", {"resources.vcpus": 0}, "resources.vcpus"),
    _bad(WORKLOAD, "no processor, as a fraction", {"resources.vcpus": 0.0}, "resources.vcpus"),
    _bad(WORKLOAD, "no version", {"version": None}, "version"),
    _bad(WORKLOAD, "version is no tag", {"version": "1 0"}, "version"),
    _bad(WORKLOAD, "version with a last newline", {"version": "1\n"}, "version"),
    _bad(WORKLOAD, "version is a number", {"version": 1.0}, "version"),
    _bad(WORKLOAD, "no image", {"image": {}}, "image"),
    _bad(WORKLOAD, "two images", {"image": {"ref": "host", "dockerfile": "D"}}, "image"),
    *(_good(WORKLOAD, f"image {ref}", {"image": {"ref": ref}}) for ref in GOOD_IMAGES),
    *(_bad(WORKLOAD, f"image {ref!r}", {"image": {"ref": ref}}, "image.ref") for ref in BAD_IMAGES),
    _bad(WORKLOAD, "Dockerfile outside", {"image": {"dockerfile": "../D"}}, "image.dockerfile"),
    _bad(WORKLOAD, "Dockerfile absolute", {"image": {"dockerfile": "/D"}}, "image.dockerfile"),
    _bad(
        WORKLOAD,
        "everything too small",
        {"resources": {"vcpus": 0.001, "memoryMb": 0, "diskGb": 0}},
        "resources.vcpus",
        "resources.memoryMb",
        "resources.diskGb",
    ),
    _bad(
        WORKLOAD,
        "resources left out",
        {"resources": {}},
        "resources.vcpus",
        "resources.memoryMb",
        "resources.diskGb",
    ),
    _bad(WORKLOAD, "too much memory", {"resources.memoryMb": 2**31 - 1}, "resources.memoryMb"),
    _bad(WORKLOAD, "half a gigabyte of disk", {"resources.diskGb": 0.5}, "resources.diskGb"),
    _bad(WORKLOAD, "unknown access", {"network.access": "some"}, "network.access"),
    _bad(WORKLOAD, "port 0", _ports(0), "network.expose[0].guest"),
    _bad(WORKLOAD, "port 65536", _ports(65536), "network.expose[0].guest"),
    _bad(WORKLOAD, "the helper's port", _ports(80, 7710), "network.expose[1].guest"),
    _bad(WORKLOAD, "the agent's port", _ports(7711), "network.expose[0].guest"),
    _bad(WORKLOAD, "one port twice", _ports(80, 81, 80), "network.expose[2]"),
    _bad(WORKLOAD, "too many ports", _ports(*range(1, 34)), "network.expose"),
    _bad(WORKLOAD, "a URL allowed", {"network.allowlist": ["http://a"]}, "network.allowlist[0]"),
    _bad(WORKLOAD, "an inner star", {"network.allowlist": ["a.*.b"]}, "network.allowlist[0]"),
    _bad(WORKLOAD, "allowed twice", {"network.allowlist": ["a", "a"]}, "network.allowlist[1]"),
    _bad(WORKLOAD, "relative WebSocket", {"network.websocket": "ws"}, "network.websocket"),
    _bad(WORKLOAD, "header without value", _headers({"name": "A"}), _HEADER),
    _bad(
        WORKLOAD,
        "header with two values",
        _headers({"name": "A", "value": "b", "valueFrom": _SECRET}),
        _HEADER,
    ),
    _bad(
        WORKLOAD,
        "header that splits the request",
        _headers({"name": "A", "value": "b\r\nC: d"}),
        f"{_HEADER}.value",
    ),
    _bad(
        WORKLOAD,
        "header name with a blank",
        _headers({"name": "A B", "value": "c"}),
        f"{_HEADER}.name",
    ),
    _bad(
        WORKLOAD,
        "one header twice",
        _headers({"name": "A", "value": "b"}, {"name": "A", "value": "c"}),
        "network.credentials[0].headers[1]",
    ),
    _bad(
        WORKLOAD,
        "half a Secret",
        _headers({"name": "A", "valueFrom": {"secretKeyRef": {"name": "S"}}}),
        f"{_HEADER}.valueFrom.secretKeyRef.name",
        f"{_HEADER}.valueFrom.secretKeyRef.key",
    ),
    _bad(
        WORKLOAD,
        "credentials without headers",
        {"network.credentials": [{"domain": "a.example", "headers": []}]},
        "network.credentials[0].headers",
    ),
    *(
        _bad(WORKLOAD, f"overlay directory {one!r}", _dirs(one), _DIR)
        for one in (
            "",
            "/",
            "workspace",
            "./a",
            "/a/",
            "//a",
            "/a//b",
            "/a/.",
            "/a/./b",
            "/..",
            "/a/../b",
            "/a/..",
            "/a\n",
            "/a\x00",
            "/a:b",
            "/" + "a" * 512,
        )
    ),
    *(
        _bad(WORKLOAD, f"reserved directory {one}", _dirs(one), "filesystem.overlayDirs")
        for one in ("/proc", "/sys/fs", "/dev/shm", "/run", "/run/boilerhouse/x")
    ),
    _bad(WORKLOAD, "one inside another", _dirs("/a/b", "/c", "/a"), "filesystem.overlayDirs"),
    _bad(WORKLOAD, "one directory twice", _dirs("/a", "/b", "/a"), "filesystem.overlayDirs[2]"),
    _bad(WORKLOAD, "33 of them", _dirs(*(f"/d{n}" for n in range(33))), "filesystem.overlayDirs"),
    _bad(WORKLOAD, "unknown restore", {"filesystem.restore": "no"}, "filesystem.restore"),
    _bad(WORKLOAD, "no version kept", {"filesystem.keepVersions": 0}, "filesystem.keepVersions"),
    _bad(WORKLOAD, "negative timeout", {"idle.timeoutSeconds": -1}, "idle.timeoutSeconds"),
    _bad(WORKLOAD, "unknown action", {"idle.action": "sleep"}, "idle.action"),
    _bad(WORKLOAD, "watched but not kept", {"idle.watchDirs": ["/a"]}, "idle.watchDirs"),
    _bad(
        WORKLOAD,
        "watched beside what is kept",
        {**_dirs("/a"), "idle.watchDirs": ["/a/b", "/ab"]},
        "idle.watchDirs",
    ),
    _bad(WORKLOAD, "negative TTL", {"idle.releasedTTLSeconds": -1}, "idle.releasedTTLSeconds"),
    _bad(WORKLOAD, "health without a check", {"health": {"intervalSeconds": 1}}, "health"),
    _bad(
        WORKLOAD,
        "health with two checks",
        {"health": {"httpGet": {"port": 80}, "exec": {"command": ["true"]}}},
        "health",
    ),
    _bad(
        WORKLOAD,
        "health at a reserved port",
        {"health": {"httpGet": {"port": 7711}}},
        "health.httpGet.port",
    ),
    _bad(
        WORKLOAD,
        "health without a command",
        {"health": {"exec": {"command": []}}},
        "health.exec.command",
    ),
    _bad(
        WORKLOAD,
        "health asked without pause",
        {"health": {"exec": {"command": ["a"]}, "intervalSeconds": 0}},
        "health.intervalSeconds",
    ),
    _bad(WORKLOAD, "relative workdir", {"entrypoint.workdir": "a"}, "entrypoint.workdir"),
    _bad(WORKLOAD, "empty command", {"entrypoint.cmd": ""}, "entrypoint.cmd"),
    _bad(WORKLOAD, "NUL in an argument", {"entrypoint.args": ["a\x00"]}, "entrypoint.args[0]"),
    *(
        _bad(WORKLOAD, f"variable {name!r}", {"entrypoint.env": {name: "x"}}, "entrypoint.env")
        for name in ("", "1A", "A=B", "A B", "-A", "Ä", "A\n")
    ),
    _bad(
        WORKLOAD,
        "variables that are no strings",
        {"entrypoint.env": {"A": 1, "B": True}},
        "entrypoint.env.A",
        "entrypoint.env.B",
    ),
    _bad(
        WORKLOAD,
        "none and more",
        {"apiAccess.scopes": ["none", "tenants:read"]},
        "apiAccess.scopes",
    ),
    _bad(WORKLOAD, "odd scope", {"apiAccess.scopes": ["All"]}, "apiAccess.scopes[0]"),
    _bad(
        WORKLOAD,
        "hooks without a command",
        {"hooks": {"preHibernate": {}, "postRestore": {"command": [], "onFailure": "retry"}}},
        "hooks.preHibernate.command",
        "hooks.postRestore.command",
        "hooks.postRestore.onFailure",
    ),
    _bad(WORKLOAD, "window too short", {"hibernateWindowSeconds": 9}, "hibernateWindowSeconds"),
    _bad(WORKLOAD, "window too long", {"hibernateWindowSeconds": 3601}, "hibernateWindowSeconds"),
]

_POOLS = [
    _good(POOL, "largest", {"size": 10_000, "maxFillConcurrency": 1_000}),
    _bad(POOL, "nothing", {"workloadRef": None, "size": None}, "workloadRef", "size"),
    _bad(POOL, "negative size", {"size": -1}, "size"),
    _bad(POOL, "size is text", {"size": "3"}, "size"),
    _bad(POOL, "too large", {"size": 10_001}, "size"),
    _bad(POOL, "never filled", {"maxFillConcurrency": 0}, "maxFillConcurrency"),
    _bad(POOL, "workload with a capital", {"workloadRef": "Agent"}, "workloadRef"),
    _bad(POOL, "workload with a dot", {"workloadRef": "a.b"}, "workloadRef"),
    _bad(POOL, "workload too long", {"workloadRef": "a" * 64}, "workloadRef"),
]

# Tenant ids that every API server refuses, and those that take more than CEL to refuse.
BAD_TENANTS = (
    "",
    ".",
    "..",
    ".a",
    "a.",
    "a ",
    " ",
    "a/b",
    "a\\b",
    "a\x00",
    "a\nb",
    "a\n",
    "a\x7f",
    "a\x85b",
    "a" * 129,
    "ä" * 101,
)
BAD_TENANTS_BEYOND_CEL = ("a\u200bb", "a\u00a0b", "a\u2028b", "e\u0301", "\ufeff", "a\ue000")
GOOD_TENANTS = (
    "a",
    "-",
    " a",
    "a.b",
    "a b",
    "user-123",
    "日本語",
    "😀",
    "a" * 128,
    "ä" * 100,
    "'\"$`",
)

_CLAIMS = [
    *(_good(CLAIM, f"tenant {tenant!r}", {"tenantId": tenant}) for tenant in GOOD_TENANTS),
    *(
        _bad(CLAIM, f"tenant {tenant!r}", {"tenantId": tenant}, "tenantId")
        for tenant in BAD_TENANTS
    ),
    _bad(CLAIM, "nothing", {"tenantId": None, "workloadRef": None}, "tenantId", "workloadRef"),
    _bad(CLAIM, "resume is text", {"resume": "yes"}, "resume"),
]

_TRIGGERS = [
    _good(TRIGGER, "a whole tenant", {"tenant": {"prefix": "a" * 64, "static": "b" * 64}}),
    *(_good(TRIGGER, f"type {name}", {"type": name}) for name in ("cron", "slack", "telegram")),
    _bad(TRIGGER, "unknown type", {"type": "carrier-pigeon"}, "type"),
    _bad(TRIGGER, "no tenant", {"tenant": None}, "tenant"),
    _bad(TRIGGER, "empty tenant", {"tenant": {}}, "tenant"),
    _bad(TRIGGER, "two tenants", {"tenant": {"static": "a", "from": "b"}}, "tenant"),
    _bad(TRIGGER, "tenant with a slash", {"tenant": {"static": "a/b"}}, "tenant.static"),
    _bad(TRIGGER, "hidden prefix", {"tenant": {"static": "a", "prefix": ".v"}}, "tenant.prefix"),
    _bad(
        TRIGGER, "too long together", {"tenant": {"prefix": "a" * 64, "static": "b" * 65}}, "tenant"
    ),
    _bad(TRIGGER, "too many bytes", {"tenant": {"prefix": "ä" * 60, "static": "ä" * 41}}, "tenant"),
    _bad(TRIGGER, "unknown guard", {"guards": [{"type": "api"}, {"type": "x"}]}, "guards[1].type"),
    _bad(TRIGGER, "config is a list", {"config": [1]}, "config"),
    _bad(TRIGGER, "driver is a path", {"driver": "../x"}, "driver"),
]

CASES: tuple[Case, ...] = (
    *(Case(kind, "the least", spec) for kind, spec in LEAST.items()),
    *(Case(kind, "the most", spec) for kind, spec in MOST.items()),
    *_WORKLOADS,
    *_POOLS,
    *_CLAIMS,
    *_TRIGGERS,
)

# What an API server writes into an object made of the least.
DEFAULTS: dict[str, Spec] = {
    WORKLOAD: {
        "network": {"access": "none"},
        "filesystem": {"restore": "restart", "keepVersions": 3},
        "idle": {"action": "hibernate"},
        "hibernateWindowSeconds": 120,
    },
    POOL: {"maxFillConcurrency": 2},
    CLAIM: {"resume": True},
    TRIGGER: {"driver": "default"},
}
