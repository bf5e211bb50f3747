"""Stored snapshots: who has what (S3), download, upload, going back to a version, removal.

caller ─► handler ─► SnapshotClient ─► helper ─► store on the volume

A helper that cannot be asked is 503: an empty list would say that nothing is stored.
"""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

import msgspec
from litestar import Response, delete, get, post, put
from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    RequestBody,
    Schema,
)
from litestar.params import FromPath, QueryParameter

from boilerhouse.core.errors import Retry
from boilerhouse.edge.api.auth import ADMIN, TENANTS_READ, Call, caller_of
from boilerhouse.edge.api.errors import Problem, bad_request, not_found
from boilerhouse.edge.api.inputs import own_tenant, tenant_id
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.edge.api.stored import (
    Snapshot,
    Upload,
    disk_of,
    keep_of,
    no_snapshot,
    overlays_of,
    require_unused,
    shown,
    snapshots_of,
    unless_claimed,
    version_number,
)
from boilerhouse.edge.api.streaming import Streaming
from boilerhouse.node.helper.wire import GZIP, Version
from boilerhouse.platform.rpc.refusal import Refused

OF_TENANT = f"{V1}/tenants/{{tenant:str}}/snapshots"
OF_BOTH = f"{V1}/tenants/{{tenant:str}}/workloads/{{workload:str}}/snapshots"

_DIGEST = re.compile(r"[0-9a-f]{64}")

Expect = Annotated[
    str | None,
    QueryParameter(
        max_length=64,
        description="Digest that the current version must have, or `none`: else 409.",
    ),
]
Versions = Annotated[bool, QueryParameter(description="All versions, not only the current ones.")]


@dataclass
class ArchiveInBody(Operation):
    """How the upload looks in /schema, where the framework sees a request and no type."""

    def __post_init__(self) -> None:
        content = {
            GZIP: OpenAPIMediaType(
                schema=Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
            )
        }
        self.request_body = RequestBody(content=content, required=True)


class Removed(msgspec.Struct, rename="camel"):
    tenant_id: str
    workload_ref: str
    version: int | None  # None: all of them
    status: str = "deleted"


@get(f"{V1}/snapshots", opt={"scope": TENANTS_READ})
async def list_snapshots(
    services: TheServices, request: Call, versions: Versions = False
) -> list[Snapshot]:
    """Return what is stored of everybody, by tenant and workload."""
    caller = caller_of(request)
    return await _listed(services, caller.tenant, caller.workload, versions)


@get(f"{V1}/workloads/{{workload:str}}/snapshots", opt={"scope": TENANTS_READ})
async def list_of_workload(
    workload: FromPath[str], services: TheServices, request: Call, versions: Versions = False
) -> list[Snapshot]:
    """Return what is stored of one workload, by tenant."""
    caller = caller_of(request)
    if not caller.admin and workload != caller.workload:
        raise not_found("Workload", workload)
    found = await _listed(services, caller.tenant, workload, versions)
    if not found:
        await services.workload(workload)  # one that never was is 404
    return found


@get(OF_TENANT, opt={"scope": TENANTS_READ})
async def list_of_tenant(
    tenant: FromPath[str], services: TheServices, request: Call, versions: Versions = False
) -> list[Snapshot]:
    """Return what is stored of one tenant, by workload."""
    caller = caller_of(request)
    return await _listed(services, own_tenant(caller, tenant), caller.workload, versions)


@get(OF_BOTH, opt={"scope": TENANTS_READ})
async def list_versions(
    tenant: FromPath[str], workload: FromPath[str], services: TheServices, request: Call
) -> list[Snapshot]:
    """Return every stored version of a tenant's files of a workload, the newest first."""
    tenant = own_tenant(caller_of(request), tenant, workload)
    return await _listed(services, tenant, workload, versions=True)


@get(f"{OF_BOTH}/{{version:str}}", opt={"scope": TENANTS_READ})
async def get_version(
    tenant: FromPath[str],
    workload: FromPath[str],
    version: FromPath[str],
    services: TheServices,
    request: Call,
) -> Snapshot:
    """Return one stored version, by number or `current`."""
    tenant = own_tenant(caller_of(request), tenant, workload)
    wanted = version_number(version)
    if wanted is None:
        current = await snapshots_of(services).current(tenant, workload)
        if current is None:
            raise no_snapshot(tenant, workload)
        return shown(current)
    found = await snapshots_of(services).list(tenant=tenant, workload=workload, versions=True)
    for one in found:
        if one.seq == wanted:
            return shown(one)
    raise not_found("Version", version)


@get(f"{OF_BOTH}/{{version:str}}/archive", opt={"scope": ADMIN}, media_type=GZIP)
async def download(
    tenant: FromPath[str],
    workload: FromPath[str],
    version: FromPath[str],
    services: TheServices,
    request: Call,
) -> Streaming:
    """Return a version's archive: a gzip tar, with its sha256 as the ETag."""
    tenant, wanted = tenant_id(tenant), version_number(version)
    async with AsyncExitStack() as opening:
        opening.enter_context(services.downloads.place(caller_of(request), tenant))
        found, content = await opening.enter_async_context(
            snapshots_of(services).open_archive(tenant, workload, wanted)
        )
        opened = opening.pop_all()
    name = quote(f"{tenant}-{workload}-{found.seq}.tar.gz", safe="")
    headers = {
        "content-length": str(found.size),
        "etag": f'"{found.digest}"',
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
    }
    return Streaming(
        services.streams, aiter(content), media_type=GZIP, opened=opened, headers=headers
    )


@put(
    OF_BOTH,
    opt={"scope": ADMIN},
    status_code=201,
    request_max_body_size=None,  # Upload counts
    operation_class=ArchiveInBody,
)
async def upload(
    tenant: FromPath[str],
    workload: FromPath[str],
    services: TheServices,
    request: Call,
    expect: Expect = None,
) -> Response[Snapshot]:
    """Store a gzip tar, the request's body, as the new current version; 409 if it is in use.

    200 if it is current already: then nothing is stored.
    """
    body = Upload(request, lambda: require_unused(services, tenant_id(tenant), workload))
    try:
        with services.uploads.place(caller_of(request), tenant_id(tenant)):
            made, new = await _stored(services, tenant_id(tenant), workload, body, expect)
    except (Problem, Refused, Retry):
        await body.let_come()
        raise
    finally:
        await body.close()
    return Response(shown(made), status_code=201 if new else 200)


async def _stored(
    services: Services, tenant: str, workload: str, body: Upload, expect: str | None
) -> tuple[Version, bool]:
    found = await services.workload(workload)
    if expect is not None and expect != "none" and not _DIGEST.fullmatch(expect):
        raise bad_request("expect: a digest is 64 hex digits; `none` is that nothing is stored")
    await require_unused(services, tenant, workload)
    with unless_claimed(tenant, workload):
        return await snapshots_of(services).put(
            tenant,
            workload,
            body,
            overlays=overlays_of(found),
            expect="" if expect == "none" else expect,
            keep=await keep_of(services, workload),
            disk=disk_of(found),
        )


@post(f"{OF_BOTH}/{{version:str}}/restore", opt={"scope": ADMIN}, status_code=201)
async def restore_version(
    tenant: FromPath[str], workload: FromPath[str], version: FromPath[str], services: TheServices
) -> Response[Snapshot]:
    """Go back to a version: its content becomes the newest one, which the next claim restores.

    200 if it is current already: then no version is made.
    """
    tenant = tenant_id(tenant)
    wanted = version_number(version)
    if wanted is None:
        raise bad_request("version: the current one is what a claim restores already")
    await require_unused(services, tenant, workload)
    keep = await keep_of(services, workload)
    with unless_claimed(tenant, workload):
        made, new = await snapshots_of(services).promote(tenant, workload, wanted, keep=keep)
    return Response(shown(made), status_code=201 if new else 200)


@delete(OF_BOTH, opt={"scope": ADMIN}, status_code=200)
async def delete_all(
    tenant: FromPath[str], workload: FromPath[str], services: TheServices
) -> Removed:
    """Remove everything that is stored of a tenant and workload; 409 if it is in use."""
    tenant = tenant_id(tenant)
    await require_unused(services, tenant, workload)
    await snapshots_of(services).delete(tenant, workload)
    return Removed(tenant, workload, None)


@delete(f"{OF_BOTH}/{{version:str}}", opt={"scope": ADMIN}, status_code=200)
async def delete_version(
    tenant: FromPath[str], workload: FromPath[str], version: FromPath[str], services: TheServices
) -> Removed:
    """Remove one version that is not the current one."""
    tenant = tenant_id(tenant)
    wanted = version_number(version)
    if wanted is None:
        raise bad_request("version: name a number, or delete the whole list")
    await require_unused(services, tenant, workload)
    await snapshots_of(services).delete(tenant, workload, wanted)
    return Removed(tenant, workload, wanted)


async def _listed(services: Services, tenant: str, workload: str, versions: bool) -> list[Snapshot]:
    found = await snapshots_of(services).list(tenant=tenant, workload=workload, versions=versions)
    found.sort(key=lambda one: (one.tenant, one.workload, -one.seq))
    return [shown(version) for version in found]


HANDLERS = [
    list_snapshots,
    list_of_workload,
    list_of_tenant,
    list_versions,
    get_version,
    download,
    upload,
    restore_version,
    delete_all,
    delete_version,
]
