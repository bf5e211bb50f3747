"""/images: the image store of one machine. A cluster's nodes have their own."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from litestar import delete, get, post
from litestar.params import QueryParameter

from boilerhouse.core.clock import rfc3339
from boilerhouse.core.patterns import IMAGE
from boilerhouse.edge.api.auth import ADMIN, Call
from boilerhouse.edge.api.errors import Problem, conflict, invalid, not_found
from boilerhouse.edge.api.paths import V1
from boilerhouse.edge.api.services import Services, TheServices
from boilerhouse.tenancy.workloads.images import ImageInUse, ImageRefused, ImageShelf, StoredImage

PATH = f"{V1}/images"
# In the query and not in the path: names of images have slashes.
_NAMED = QueryParameter(min_length=1, max_length=255, description="As in a workload's image.ref.")
Name = Annotated[str, _NAMED]
MaybeName = Annotated[str | None, _NAMED]


class ImageView(msgspec.Struct, rename="camel"):
    name: str
    digest: str
    size_bytes: int
    imported_at: str


class ImageRemoved(msgspec.Struct):
    name: str
    status: str = "deleted"


@get(PATH, opt={"scope": ADMIN})
async def list_images(services: TheServices) -> list[ImageView]:
    """Return the imported images, by name."""
    return [_view(image) for image in await _shelf(services).stored()]


@post(PATH, opt={"scope": ADMIN}, request_max_body_size=None)
async def import_image(
    services: TheServices, request: Call, name: MaybeName = None
) -> list[ImageView]:
    """Import an archive, which is the body: what `docker save` writes, or an OCI layout as a tar.

    `name` is for an archive of one image; without it each keeps the name it comes with.
    """
    if name is not None and re.fullmatch(IMAGE, name) is None:
        raise invalid("the image", [f"name {name!r}: want [registry[:port]/]name[:tag]"])
    try:
        with services.streams.cancelling():  # a server that stops does not wait for it
            taken = await _shelf(services).take_in(request.stream(), name)
    except ImageRefused as error:
        raise invalid("the image", [str(error)]) from None
    services.look_at_workloads()  # one of them may have waited for it
    return [_view(image) for image in taken]


@delete(PATH, opt={"scope": ADMIN}, status_code=200)
async def remove_image(name: Name, services: TheServices) -> ImageRemoved:
    """Remove a name, and what no other image needs; 409 while an instance runs on it."""
    try:
        removed = await _shelf(services).remove(name)
    except ImageInUse as error:
        raise conflict("ImageInUse", str(error)) from None
    if not removed:
        raise not_found("Image", name)
    services.look_at_workloads()
    return ImageRemoved(name)


def _shelf(services: Services) -> ImageShelf:
    if services.shelf is None:
        raise Problem(
            404,
            "NoImageStore",
            "there is no image store here: the nodes of a cluster pull images by themselves",
        )
    return services.shelf


def _view(image: StoredImage) -> ImageView:
    return ImageView(image.name, image.digest, image.size, rfc3339(image.imported_at))
