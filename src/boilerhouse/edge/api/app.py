"""The application: every route, one guard, one way to fail.

uvicorn ─► OuterMiddleware ─► Litestar ─► guard ─► handler ─► Services

Handlers are thin on purpose: what they decide with is below, and the framework could be exchanged.
"""

from __future__ import annotations

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig

from boilerhouse.core.version import version
from boilerhouse.edge.api.auth import PUBLIC, guard
from boilerhouse.edge.api.document import CompletedJson, CompletedYaml
from boilerhouse.edge.api.errors import answer
from boilerhouse.edge.api.handlers import (
    attach,
    events,
    execs,
    files,
    idle,
    images,
    instances,
    logs,
    postmortems,
    proxy,
    releases,
    resources,
    settings,
    snapshots,
    system,
    tenants,
)
from boilerhouse.edge.api.middleware import OuterMiddleware, remember
from boilerhouse.edge.api.services import Services

BODY_LIMIT = 3 << 20

HANDLERS = [
    tenants.claim,
    *releases.HANDLERS,
    tenants.list_tenants,
    tenants.get_tenant,
    instances.list_instances,
    instances.get_instance,
    instances.destroy_instance,
    postmortems.post_mortem,
    execs.exec_instance,
    files.read_file,
    files.write_file,
    files.delete_file,
    attach.attach_instance,
    logs.instance_logs,
    images.list_images,
    images.import_image,
    images.remove_image,
    events.stream_events,
    events.events_socket,
    system.stats,
    system.health,
    system.why,
    system.metrics,
    idle.explain_idle,
    proxy.proxy,
    *snapshots.HANDLERS,
]


def application(services: Services) -> OuterMiddleware:
    """Return what a server is to serve for these services."""
    return OuterMiddleware(routes(services), services.clock, services.stop_streams)


def routes(services: Services) -> Litestar:
    """Put the framework's part together."""

    def the_house() -> Services:
        return services

    of_kinds = [
        *(handler for plural in resources.KINDS for handler in resources.handlers(plural)),
        *(handler for plural in settings.KINDS for handler in settings.handlers(plural)),
    ]
    return Litestar(
        route_handlers=[*HANDLERS, *of_kinds],
        guards=[guard],
        dependencies={"services": Provide(the_house, sync_to_thread=False, use_cache=True)},
        exception_handlers={Exception: answer},
        after_exception=[remember],
        state=State({"auth": services.auth}),
        request_max_body_size=BODY_LIMIT,
        openapi_config=OpenAPIConfig(
            title="Boilerhouse",
            version=version(),
            openapi_router=Router("/schema", route_handlers=[], opt={"scope": PUBLIC}),
            render_plugins=[
                CompletedJson(path="/"),
                CompletedJson(path="/openapi.json"),
                CompletedYaml(path="/openapi.yaml"),
            ],
            use_handler_docstrings=True,
        ),
        logging_config=None,
        debug=False,
    )
