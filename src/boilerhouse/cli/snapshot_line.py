"""The commands about what is stored of tenants, and about idleness: their options.

app ─► snapshot ls | get | put | rm | restore, idle ─► Rest ─► exit code
"""

from __future__ import annotations

from typing import Annotated

import typer

from boilerhouse.cli.remote import (
    SERVER,
    Output,
    Plain,
    Tenant,
    Workload,
    Yes,
    argument,
    option,
    with_rest,
)

snapshot = typer.Typer(
    help="What is stored of tenants: archives that any tar reads.", no_args_is_help=True
)


@snapshot.command(epilog=SERVER)
def ls(
    tenant: Annotated[str | None, argument("TENANT", "Of one tenant; of all if left out.")] = None,
    workload: Annotated[
        str | None, argument("WORKLOAD", "Every version of this tenant and workload.")
    ] = None,
    of_workload: Annotated[
        str | None, option("--workload", "-w", metavar="WORKLOAD", help="Of one workload.")
    ] = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="All versions, not only the current ones.")
    ] = False,
    output: Output = Plain.TEXT,
) -> None:
    """List what is stored."""
    from boilerhouse.cli.snapshot import ls as run

    if None not in (workload, of_workload) and workload != of_workload:
        raise typer.BadParameter(f"{workload} was named already", param_hint="--workload")
    chosen = of_workload if workload is None else workload
    with_rest(lambda rest: run(rest, tenant, chosen, versions=versions, output=output))


@snapshot.command(epilog=SERVER)
def get(
    tenant: Tenant,
    workload: Workload,
    version: Annotated[
        str, typer.Option(metavar="VERSION", help="Number of the version, or `current`.")
    ] = "current",
    file: Annotated[
        str | None,
        option(
            *("--file", "-f"),
            metavar="FILE",
            help="Where to write it; - is stdout. Default: TENANT-WORKLOAD.tar.gz.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Fetch an archive. It appears under its name only when it is whole and checked."""
    from boilerhouse.cli.snapshot import get as run

    with_rest(lambda rest: run(rest, tenant, workload, version=version, file=file, force=force))


@snapshot.command(epilog=SERVER)
def put(
    tenant: Tenant,
    workload: Workload,
    file: Annotated[str, argument("FILE", "A gzip tar; - is stdin.")],
    expect: Annotated[
        str | None,
        option(
            metavar="DIGEST",
            help="Only if the current version has this digest; `none`: if nothing is stored.",
        ),
    ] = None,
    output: Output = Plain.TEXT,
) -> None:
    """Store an archive: the tenant's next claim restores it."""
    from boilerhouse.cli.snapshot import put as run

    with_rest(lambda rest: run(rest, tenant, workload, file, expect=expect, output=output))


@snapshot.command(epilog=SERVER)
def rm(
    tenant: Tenant,
    workload: Workload,
    version: Annotated[
        int | None,
        option(metavar="VERSION", help="Only this version; everything if left out.", min=0),
    ] = None,
    yes: Yes = False,
    output: Output = Plain.TEXT,
) -> None:
    """Remove what is stored of a tenant and workload, for good."""
    from boilerhouse.cli.snapshot import rm as run

    with_rest(lambda rest: run(rest, tenant, workload, version=version, yes=yes, output=output))


@snapshot.command(epilog=SERVER)
def restore(
    tenant: Tenant,
    workload: Workload,
    version: Annotated[int, argument("VERSION", "Number of the version, as `ls` prints it.")],
    output: Output = Plain.TEXT,
) -> None:
    """Go back to a version: the tenant's next claim restores its content."""
    from boilerhouse.cli.snapshot import restore as run

    with_rest(lambda rest: run(rest, tenant, workload, version, output=output))


def idle(tenant: Tenant, workload: Workload, output: Output = Plain.TEXT) -> None:
    """Explain whether a tenant's instance counts as used, and what happens when it does not."""
    from boilerhouse.cli.idleness import run

    with_rest(lambda rest: run(rest, tenant, workload, output))


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(snapshot, name="snapshot")
    app.command(epilog=SERVER)(idle)
