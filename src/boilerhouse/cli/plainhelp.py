"""`--help` without the names of Python types: `exec INSTANCE COMMAND...`, as elsewhere."""

from __future__ import annotations

import re

import typer
from typer.core import TyperCommand

_BRACES = re.compile(r"\{([A-Z/]+)\}")
_TYPES = re.compile(r" <(?:str|int|file|list\[str\])>")


class PlainCommand(TyperCommand):
    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]  # typer's own Context
        """Return typer's text without `{}` around what must be given and `<str>` behind it."""
        text = _BRACES.sub(r"\1", super().get_help(ctx))
        # As many blanks instead: the columns stay where they are.
        return _TYPES.sub(lambda found: " " * len(found[0]), text)


def plain_help(app: typer.Typer) -> None:
    """Give every command of an app its plain help."""
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            plain_help(group.typer_instance)
