"""The commands and their options; what they do lives in the file of the same name.

main ─► app ─► up, gen, …

Only the command that runs is imported: `boilerhouse version` must not pay for a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from boilerhouse.cli import image, remote, snapshot_line
from boilerhouse.cli.plainhelp import plain_help
from boilerhouse.cli.remote import option
from boilerhouse.run.startup import imports, require_embedded

app = typer.Typer(
    name="boilerhouse",
    help="A running instance per tenant in milliseconds, hibernated when idle, back where it was.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _directory(text: str) -> Path:
    if not text:
        raise typer.BadParameter("it is empty; the current directory is .")
    return Path(text)


def _amount(text: str) -> int:
    from boilerhouse.embedded.fields.quantity import parse

    try:
        return max(0, parse(text).whole)
    except ValueError:
        raise typer.BadParameter("it is an amount such as 256Mi or 1Gi") from None


def _port(words: str, *, show_default: bool = True) -> Any:
    return typer.Option(metavar="PORT", help=words, min=0, max=65535, show_default=show_default)


def _say_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Print which release this is."
        ),
    ] = False,
) -> None:
    """Take what stands before a command."""


@app.command()
def up(
    data: Annotated[
        Path | None,
        option(
            help="Where everything is kept: a new directory, an empty one or one of ours."
            " Default: $XDG_DATA_HOME/boilerhouse.",
            parser=_directory,
            metavar="DIRECTORY",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the REST API. Anything but loopback needs BOILERHOUSE_API_KEY.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, _port("Port of the REST API; 0 is any.")] = 3000,
    kube_host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", help="Address of the Kubernetes API. Loopback unless you mean it."
        ),
    ] = "127.0.0.1",
    kube_port: Annotated[
        int | None,
        _port(
            "Port of the Kubernetes API. Default: the one used before, "
            "else 6443 or the next free one.",
            show_default=False,
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Do not start where limits of memory and CPU cannot be enforced."
        ),
    ] = False,
    reserve: Annotated[
        int | None,
        option(
            help="Disk space kept back for Boilerhouse itself, such as 256Mi; 0 keeps none."
            " Default: a 32nd of the disk, at most 256Mi.",
            parser=_amount,
            metavar="SIZE",
        ),
    ] = None,
    unsandboxed: Annotated[
        bool, typer.Option("--unsandboxed", help="Not possible; says why.", hidden=True)
    ] = False,
) -> None:
    """Run Boilerhouse on this machine until Ctrl-C.

    Prints the addresses of the REST API and of the Kubernetes API, and where its kubeconfig is;
    any kubectl works with it. Started again on the same data directory, it carries on where it
    was.
    """
    if unsandboxed:
        typer.echo(
            "boilerhouse: instances cannot run unsandboxed: each has its identity at"
            " /run/boilerhouse and directories of its own at paths like /workspace, which without"
            " namespaces all of them would share; docs/adr/0011 says more",
            err=True,
        )
        raise typer.Exit(1)
    require_embedded()
    with imports():
        from boilerhouse.run.up import UpLine, run
    raise typer.Exit(run(UpLine(data, host, port, kube_host, kube_port, strict, reserve)))


remote.add_to(app)
snapshot_line.add_to(app)
app.add_typer(image.app, name="image")

Context = Annotated[
    str,
    typer.Option(metavar="NAME", help="Context of the kubeconfig; default: the current one."),
]
Namespace = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Namespace to work in; default: $K8S_NAMESPACE, else boilerhouse."
    ),
]
Image = Annotated[
    str, typer.Option(metavar="NAME", help="The product's own image, for agents and helper.")
]
ApiUrl = Annotated[str, typer.Option(metavar="URL", help="Where instances find the REST API.")]


@app.command()
def operator(
    context: Context = "",
    namespace: Namespace = "",
    image: Image = "boilerhouse",
    api_url: ApiUrl = "",
    probes_port: Annotated[int, _port("Port of /healthz, /readyz and /metrics.")] = 8081,
) -> None:
    """Run the operator on a Kubernetes cluster (KUBECONFIG, or a Pod's service account)."""
    with imports():
        from boilerhouse.run.cluster import Options, run_operator
    raise typer.Exit(run_operator(Options(context, namespace, image, api_url), probes_port))


@app.command()
def api(
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on. Anything but loopback needs BOILERHOUSE_API_KEY.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, _port("Port to listen on.")] = 3000,
    context: Context = "",
    namespace: Namespace = "",
    image: Image = "boilerhouse",
    api_url: ApiUrl = "",
) -> None:
    """Run the REST API on a Kubernetes cluster (KUBECONFIG, or a Pod's service account)."""
    with imports():
        from boilerhouse.run.cluster import Options, run_api
    raise typer.Exit(run_api(Options(context, namespace, image, api_url), host, port))


@app.command()
def gen(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail and name the files that differ.")
    ] = False,
    root: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", help="The repository.", file_okay=False, exists=True),
    ] = Path(),
) -> None:
    """Write the files generated from the models: CRDs and lifecycle pages."""
    from boilerhouse.cli.gen import run

    raise typer.Exit(run(root, check=check))


@app.command()
def version() -> None:
    """Print which release this is."""
    from boilerhouse.core.version import version as release

    typer.echo(f"boilerhouse {release()}")


plain_help(app)
