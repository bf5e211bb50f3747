"""`boilerhouse image ls|import|rm`: the image store of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from boilerhouse.cli.remote import SERVER, Format, Shape, argument, with_rest
from boilerhouse.cli.rest import Failure, Rest

app = typer.Typer(
    help="Images in the local store of a Boilerhouse on one machine.", no_args_is_help=True
)

PIECE = 1 << 20
Name = Annotated[str, argument("NAME", "Name of the image.")]


@app.command("ls", epilog=SERVER)
def ls(output: Shape = Format.TABLE) -> None:
    """List the imported images."""
    from boilerhouse.cli.get import run

    with_rest(lambda rest: run(rest, "images", None, output))


@app.command("import", epilog=SERVER)
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="What `docker save` writes, or an OCI layout as a tar.",
            exists=True,
            dir_okay=False,
            readable=True,
            show_default=False,
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name for the only image; default: the names in the archive."
        ),
    ] = None,
) -> None:
    """Import the images of an archive."""
    with_rest(lambda rest: _import(rest, file, name))


@app.command("rm", epilog=SERVER)
def rm(name: Name) -> None:
    """Remove an image that no instance runs on."""
    with_rest(lambda rest: _remove(rest, name))


def _import(rest: Rest, file: Path, name: str | None) -> int:
    query = {} if name is None else {"name": name}
    size = file.stat().st_size
    _, taken = rest.send("POST", "images", _pieces(file), length=size, query=query)
    for image in taken:
        typer.echo(image["name"])
    return 0


def _pieces(file: Path) -> Iterator[bytes]:
    try:
        with file.open("rb") as archive:
            while piece := archive.read(PIECE):
                yield piece
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error


def _remove(rest: Rest, name: str) -> int:
    rest.call("DELETE", "images", query={"name": name})
    typer.echo(f"{name} removed")
    return 0
