"""What a Workload says: BoilerhouseWorkload as Structs, and the resource made of them.

What is here but not honoured yet is refused by the operator with a reason, never ignored.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, ClassVar

from msgspec import Meta, field

from boilerhouse.core.crd import Column, CustomResource
from boilerhouse.core.model import Model, Status
from boilerhouse.core.patterns import IMAGE, MEANING, NO_NUL, in_cel
from boilerhouse.core.rules import Rule, exactly_one_of
from boilerhouse.core.schema import UNIQUE, Int32, doc
from boilerhouse.tenancy.workloads.machine import WORKLOAD, WorkloadPhase
from boilerhouse.tenancy.workloads.network import Network, Port, not_reserved
from boilerhouse.tenancy.workloads.paths import ABSOLUTE, RELATIVE, RESERVED, within


class IdleAction(StrEnum):
    """What becomes of an instance that is idle for too long (S3)."""

    HIBERNATE = "hibernate"
    DESTROY = "destroy"


class Restore(StrEnum):
    """How saved files come into a warm instance."""

    RESTART = "restart"
    LIVE = "live"


class OnFailure(StrEnum):
    """What a failed hook means for what it hooks into."""

    CONTINUE = "continue"
    FAIL = "fail"


Argument = Annotated[str, Meta(max_length=32_768, pattern=NO_NUL)]
Command = Annotated[
    tuple[Argument, ...],
    Meta(min_length=1, max_length=256),
    doc("Program and arguments, run without a shell."),
]
Directory = Annotated[
    str,
    Meta(
        max_length=512,
        pattern=ABSOLUTE,
        extra={MEANING: "an absolute path such as /workspace, without . or .., // or a colon"},
    ),
]
Seconds = Annotated[Int32, Meta(le=31_536_000)]


class Image(Model, frozen=True):
    """What the instance is made of: an image that exists, or a recipe for one."""

    RULES: ClassVar = (exactly_one_of("ref", "dockerfile"),)

    ref: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1024,
                pattern=IMAGE,
                extra={MEANING: "an image reference such as python:3.12 or host.example/team/app"},
            ),
            doc("Reference of an image: [registry[:port]/]name[:tag][@digest]."),
        ]
        | None
    ) = None
    dockerfile: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=512,
                pattern=RELATIVE,
                extra={MEANING: "a relative path such as box/Dockerfile"},
            ),
            doc("Path of a Dockerfile, relative to the operator's directory of workloads."),
        ]
        | None
    ) = None


class Resources(Model, frozen=True):
    """What one instance may use."""

    vcpus: Annotated[float, Meta(ge=0.01, le=1024), doc("Processors; fractions are allowed.")]
    memory_mb: Annotated[Int32, Meta(ge=1, le=16_777_216), doc("Memory, in MiB.")]
    disk_gb: Annotated[
        Int32,
        Meta(ge=1, le=65_536),
        doc(
            "Disk, in GiB, and 65,536 files and directories for each. An instance that has used it"
            " up is frozen with all its files until some are removed, it is released, or this is"
            " raised."
        ),
    ]


class Filesystem(Model, frozen=True):
    """Which directories are the tenant's own, and how they are kept."""

    RULES: ClassVar = (
        Rule(
            cel="!has(self.overlayDirs) || self.overlayDirs.all(outer,"
            " !self.overlayDirs.exists(inner, inner.startsWith(outer + '/')))",
            message="no overlay directory may lie inside another",
            holds=lambda fs: (
                not any(
                    inner != outer and within(inner, outer)
                    for inner in fs.overlay_dirs
                    for outer in fs.overlay_dirs
                )
            ),
            field="overlayDirs",
        ),
        Rule(
            cel=f"!has(self.overlayDirs) || self.overlayDirs.all(dir, !{list(RESERVED)}.exists("
            "taken, dir == taken || dir.startsWith(taken + '/') || taken.startsWith(dir + '/')))",
            message=f"an overlay directory may not overlap {', '.join(RESERVED)}",
            holds=lambda fs: (
                not any(
                    within(one, taken) or within(taken, one)
                    for one in fs.overlay_dirs
                    for taken in RESERVED
                )
            ),
            field="overlayDirs",
        ),
    )

    overlay_dirs: Annotated[
        tuple[Directory, ...],
        Meta(max_length=32),
        UNIQUE,
        doc(
            "Directories that are saved at release and restored at the next claim: absolute,"
            " without . or .., none inside another. All else comes from the image at each start."
        ),
    ] = ()
    encrypt_overlays: Annotated[bool, doc("Whether saved files are encrypted.")] = False
    restore: Annotated[
        Restore,
        doc(
            "How saved files come into a warm instance: restart kills its process, which starts"
            " again with its files there; live leaves it running."
        ),
    ] = Restore.RESTART
    keep_versions: Annotated[
        Int32, Meta(ge=1, le=100), doc("How many saved versions of a tenant's files to keep.")
    ] = 3


class Idle(Model, frozen=True):
    """When an instance counts as unused, and what then becomes of it."""

    timeout_seconds: Annotated[
        Seconds, Meta(ge=0), doc("Seconds without activity; 0 or absent means never.")
    ] = 0
    action: Annotated[
        IdleAction,
        doc("hibernate saves the tenant's files first; destroy drops what is newer than saved."),
    ] = IdleAction.HIBERNATE
    watch_dirs: Annotated[
        tuple[Directory, ...],
        Meta(max_length=32),
        UNIQUE,
        doc("Directories in which a change counts as activity; they lie in overlay directories."),
    ] = ()
    released_ttl_seconds: (
        Annotated[
            Seconds,
            Meta(ge=0),
            doc("Seconds after which a claim released by idleness is removed; absent means never."),
        ]
        | None
    ) = field(default=None, name="releasedTTLSeconds")


class HttpGet(Model, frozen=True):
    """A request that a healthy instance answers with success."""

    RULES: ClassVar = (not_reserved("port"),)

    port: Annotated[Port, doc("Port of the instance.")]
    path: Annotated[
        str,
        Meta(
            max_length=2048,
            pattern=r"^/[!-~]*\Z",
            extra={MEANING: "a path that begins with /, without blanks"},
        ),
        doc("Path of the request."),
    ] = "/"


class Exec(Model, frozen=True):
    """A command that succeeds in a healthy instance."""

    command: Command


class Health(Model, frozen=True):
    """How to tell that an instance is ready. Without it: its first port accepts connections."""

    RULES: ClassVar = (exactly_one_of("httpGet", "exec"),)

    http_get: HttpGet | None = None
    exec: Exec | None = None
    interval_seconds: Annotated[Int32, Meta(ge=1, le=3600), doc("Seconds between two checks.")] = 5
    unhealthy_threshold: Annotated[
        Int32, Meta(ge=1, le=100), doc("How many checks in a row must fail.")
    ] = 3


_ENV_NAME = r"^[A-Za-z_][-._A-Za-z0-9]*\Z"
_IS_ENV_NAME = re.compile(_ENV_NAME)


class Entrypoint(Model, frozen=True):
    """What to run, where the image's own command will not do."""

    RULES: ClassVar = (
        Rule(
            cel=f"!has(self.env) || self.env.all(name, name.matches({in_cel(_ENV_NAME)}))",
            message="an environment variable's name starts with a letter or underscore and goes on"
            " with letters, digits, underscores, dots or dashes",
            holds=lambda entrypoint: all(_IS_ENV_NAME.search(name) for name in entrypoint.env),
            field="env",
        ),
    )

    cmd: (
        Annotated[str, Meta(min_length=1, max_length=4096, pattern=NO_NUL), doc("Program to run.")]
        | None
    ) = None
    args: Annotated[tuple[Argument, ...], Meta(max_length=256), doc("Its arguments.")] = ()
    workdir: (
        Annotated[
            str,
            Meta(max_length=4096, pattern=r"^/[^\x00]*\Z", extra={MEANING: "an absolute path"}),
            doc("Directory to run it in."),
        ]
        | None
    ) = None
    env: Annotated[dict[str, Argument], Meta(max_length=256), doc("Environment variables.")] = (
        field(default_factory=dict)
    )


class ApiAccess(Model, frozen=True):
    """What the token that an instance finds in itself allows at Boilerhouse's own API."""

    RULES: ClassVar = (
        Rule(
            cel="!has(self.scopes) || size(self.scopes) == 1 || !('none' in self.scopes)",
            message="the scope none stands alone",
            holds=lambda access: len(access.scopes) == 1 or "none" not in access.scopes,
            field="scopes",
        ),
    )

    scopes: Annotated[
        tuple[
            Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[a-z][-a-z0-9.:*_]*\Z")],
            ...,
        ],
        Meta(max_length=64),
        UNIQUE,
        doc("Scopes of the token; none, alone, means no token."),
    ] = ()


class PreHibernate(Model, frozen=True):
    """A command run in the instance before its files are saved."""

    command: Command
    timeout_seconds: Annotated[
        Int32, Meta(ge=1, le=3600), doc("Seconds after which it counts as failed.")
    ] = 30
    on_failure: Annotated[
        OnFailure, doc("continue saves the files nevertheless; fail makes the save fail.")
    ] = OnFailure.CONTINUE


class PostRestore(Model, frozen=True):
    """A command run in the instance once its files are restored and it is ready."""

    command: Command
    timeout_seconds: Annotated[
        Int32, Meta(ge=1, le=3600), doc("Seconds after which it counts as failed.")
    ] = 30
    on_failure: Annotated[
        OnFailure, doc("continue hands the instance over nevertheless; fail tries again.")
    ] = OnFailure.FAIL


class Hooks(Model, frozen=True):
    """Commands that an instance runs at the turns of its life."""

    pre_hibernate: PreHibernate | None = None
    post_restore: PostRestore | None = None


def _watched_dirs_are_kept(spec: WorkloadSpec) -> bool:
    return all(
        any(within(watched, kept) for kept in spec.filesystem.overlay_dirs)
        for watched in spec.idle.watch_dirs
    )


class WorkloadSpec(Model, frozen=True):
    """The blueprint of an instance."""

    RULES: ClassVar = (
        Rule(
            # Nothing else of an instance can be looked into from outside.
            cel="!has(self.idle) || !has(self.idle.watchDirs) || self.idle.watchDirs.all(watched,"
            " has(self.filesystem) && has(self.filesystem.overlayDirs)"
            " && self.filesystem.overlayDirs.exists(kept,"
            " watched == kept || watched.startsWith(kept + '/')))",
            message="every watched directory must lie in an overlay directory",
            holds=_watched_dirs_are_kept,
            field="idle.watchDirs",
        ),
    )

    version: Annotated[
        str,
        Meta(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9_][-.A-Za-z0-9_]*\Z"),
        doc("Version of the blueprint; an image built of a Dockerfile is tagged with it."),
    ]
    image: Image
    resources: Resources
    network: Network = Network()
    filesystem: Filesystem = Filesystem()
    idle: Idle = Idle()
    health: Health | None = None
    entrypoint: Entrypoint | None = None
    api_access: ApiAccess | None = None
    hooks: Hooks | None = None
    hibernate_window_seconds: Annotated[
        Int32,
        Meta(ge=10, le=3600),
        doc("Seconds an instance that is deleted from outside has for saving its files."),
    ] = 120


class WorkloadStatus(Status, frozen=True):
    """Whether instances can be made. The operator writes it, everyone reads it."""

    phase: WorkloadPhase = WORKLOAD.initial


RESOURCE = CustomResource(
    kind="BoilerhouseWorkload",
    short_name="bhw",
    doc="A workload is the blueprint that instances are made of.",
    spec=WorkloadSpec,
    status=WorkloadStatus,
    machine=WORKLOAD,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Version", ".spec.version"),
        Column("Image", ".spec.image.ref"),
    ),
)
