"""The commands that talk to a running Boilerhouse: their options, and one way to fail.

app ─► apply, get, claim, release, exec, logs, why ─► Rest ─► exit code
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from boilerhouse.cli.rest import Rest

SERVER = (
    "Talks to BOILERHOUSE_URL (default http://127.0.0.1:3000), with BOILERHOUSE_API_KEY if set."
)


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Plain(StrEnum):
    TEXT = "text"
    JSON = "json"


option = partial(typer.Option, show_default=False)  # one whose help tells its default


def argument(metavar: str, words: str) -> Any:
    """Return what Typer is told about an argument."""
    return typer.Argument(metavar=metavar, help=words, show_default=False)


Tenant = Annotated[str, argument("TENANT", "Who the instance is for.")]
Workload = Annotated[str, argument("WORKLOAD", "Name of the workload.")]
Instance = Annotated[str, argument("INSTANCE", "Name of the instance, as `claim` prints it.")]
_WAIT = "How long to wait for the outcome, up to 300."
Wait = Annotated[float, typer.Option(metavar="SECONDS", help=_WAIT, min=0, max=300)]
Output = Annotated[Plain, typer.Option("--output", "-o", help="How to print it.")]
Shape = Annotated[Format, typer.Option("--output", "-o", help="How to print it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def with_rest(command: Callable[[Rest], int]) -> None:
    """Run a command against the server; a failure is one line and an exit code."""
    from boilerhouse.cli.rest import Failure, Rest

    try:
        rest = Rest()
        try:
            exit_code = command(rest)
        finally:
            rest.close()
        sys.stdout.flush()
    except Failure as failure:
        typer.echo(f"boilerhouse: {failure}", err=True)
        exit_code = failure.exit_code
    except KeyboardInterrupt:
        exit_code = 130
    except BrokenPipeError:  # `| head` has seen enough, and a shell may want to know
        _give_up_stdout()
        exit_code = 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or isinstance(error, ConnectionError):
            raise  # of a file or a connection: whoever uses those says what it means
        _give_up_stdout()
        why = f"cannot write output: {error.strerror}"
        typer.echo(f"boilerhouse: {why}", err=True)
        exit_code = 1
    raise typer.Exit(exit_code)


def _give_up_stdout() -> None:
    """Have what could not be written forgotten: Python would try once more at its end, and fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def apply(
    file: Annotated[
        list[str],
        option(
            *("--file", "-f"),
            metavar="FILE",
            help="File of YAML or JSON, such as `get -o yaml` prints; - is stdin. May be repeated.",
        ),
    ],
) -> None:
    """Create or replace the objects of a file.

    Workloads, pools, claims, triggers, Secrets and ConfigMaps, in Kubernetes' shape; a file may
    hold several documents. Exit code 1 if one is refused, or was created and cannot work.
    """
    from boilerhouse.cli.apply import run

    with_rest(lambda rest: run(rest, file))


def get(
    kind: Annotated[
        str,
        argument(
            "KIND",
            "workloads, pools, claims, triggers, instances, tenants, images, secrets or "
            "configmaps.",
        ),
    ],
    name: Annotated[str | None, argument("NAME", "One of them; all if left out.")] = None,
    output: Shape = Format.TABLE,
) -> None:
    """Show what there is."""
    from boilerhouse.cli.get import run

    with_rest(lambda rest: run(rest, kind, name, output))


def claim(
    tenant: Tenant,
    workload: Workload,
    no_resume: Annotated[
        bool,
        typer.Option(
            "--no-resume",
            help="Start clean. The saved files stay as a version; what this instance"
            " leaves becomes current when it is released.",
        ),
    ] = False,
    wait: Wait = 30,
    output: Output = Plain.TEXT,
) -> None:
    """Give a tenant its instance of a workload.

    Exit code 0 when it runs, 3 when it is still on its way after --wait seconds.
    """
    from boilerhouse.cli.tenancy import claim as run

    with_rest(
        lambda rest: run(rest, tenant, workload, resume=not no_resume, wait=wait, output=output)
    )


def release(
    tenant: Tenant,
    workload: Workload,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try a release that failed again now.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Give up what a failed release cannot save; asks first."),
    ] = False,
    yes: Yes = False,
    wait: Wait = 30,
    output: Output = Plain.TEXT,
) -> None:
    """Take a tenant's instance away.

    Exit code 0 when it is gone, 3 when that still goes on after --wait seconds.
    """
    from boilerhouse.cli.tenancy import force as run_force
    from boilerhouse.cli.tenancy import release as run

    if retry and force:
        raise typer.BadParameter("--retry and --force exclude each other")
    if force:
        with_rest(lambda rest: run_force(rest, tenant, workload, yes=yes, wait=wait, output=output))
    with_rest(lambda rest: run(rest, tenant, workload, retry=retry, wait=wait, output=output))


def exec_(
    instance: Instance,
    command: Annotated[list[str], argument("COMMAND", "Program and arguments, after --.")],
    stdin: Annotated[bool, typer.Option("-i", "--stdin", help="Pass our input on.")] = False,
    terminal: Annotated[bool, typer.Option("-t", "--tty", help="Give it a terminal.")] = False,
) -> None:
    """Run a command in an instance; its exit code is ours.

    Example: boilerhouse exec -it inst-alice-web-1a2b3c -- sh
    """
    from boilerhouse.cli.execute import run

    with_rest(lambda rest: run(rest, instance, command, stdin=stdin, terminal=terminal))


def why(
    what: Annotated[
        str, argument("KIND/NAME", "claim/NAME, pool/NAME, workload/NAME or trigger/NAME.")
    ],
    output: Output = Plain.TEXT,
) -> None:
    """Tell what was last seen of an object, what was decided, and what it waits for."""
    from boilerhouse.cli.why import run

    with_rest(lambda rest: run(rest, what, output))


def logs(
    instance: Instance,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on as it writes.")] = False,
    tail: Annotated[int | None, option(metavar="LINES", help="Only the last lines.", min=0)] = None,
    since: Annotated[
        str | None,
        option(
            metavar="WHEN",
            help="Only what is newer: a duration (90s, 10m, 1h30m) or an RFC 3339 time.",
        ),
    ] = None,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="What it wrote before it was last restarted.")
    ] = False,
) -> None:
    """Print what an instance has written."""
    from boilerhouse.cli.tail import run

    with_rest(
        lambda rest: run(rest, instance, follow=follow, previous=previous, tail=tail, since=since)
    )


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (apply, get, claim, release, exec_, logs, why):
        app.command(command.__name__.rstrip("_"), epilog=SERVER)(command)
