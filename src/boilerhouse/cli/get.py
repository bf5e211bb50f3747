"""`boilerhouse get`: what there is, as a table for people or as data for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import typer
import yaml

from boilerhouse.cli.documents import shaped
from boilerhouse.cli.rest import Failure, Rest, print_json, segment
from boilerhouse.core.clock import SystemClock, parse_time

Item = Mapping[str, Any]
Cell = Callable[[Item], object]


def _at(*path: str) -> Cell:
    def cell(item: Item) -> object:
        value: Any = item
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    return cell


def _endpoint(item: Item) -> object:
    endpoint = item.get("endpoint") or {}
    known = [str(endpoint[key]) for key in ("host", "port") if endpoint.get(key)]
    return ":".join(known) or None


TABLES: dict[str, dict[str, Cell]] = {
    "workloads": {
        "NAME": _at("name"),
        "PHASE": _at("status", "phase"),
        "VERSION": _at("spec", "version"),
        "IMAGE": _at("spec", "image", "ref"),
        "AGE": _at("createdAt"),
        "DETAIL": _at("status", "detail"),
    },
    "pools": {
        "NAME": _at("name"),
        "WORKLOAD": _at("spec", "workloadRef"),
        "SIZE": _at("spec", "size"),
        "READY": _at("status", "ready"),
        "PHASE": _at("status", "phase"),
        "AGE": _at("createdAt"),
        "DETAIL": _at("status", "detail"),
    },
    "claims": {
        "NAME": _at("name"),
        "TENANT": _at("spec", "tenantId"),
        "WORKLOAD": _at("spec", "workloadRef"),
        "PHASE": _at("status", "phase"),
        "SOURCE": _at("status", "source"),
        "INSTANCE": _at("status", "instanceId"),
        "AGE": _at("createdAt"),
        "DETAIL": _at("status", "detail"),
    },
    "triggers": {
        "NAME": _at("name"),
        "TYPE": _at("spec", "type"),
        "WORKLOAD": _at("spec", "workloadRef"),
        "PHASE": _at("status", "phase"),
        "AGE": _at("createdAt"),
        "DETAIL": _at("status", "detail"),
    },
    "instances": {
        "NAME": _at("name"),
        "TENANT": _at("tenantId"),
        "WORKLOAD": _at("workloadRef"),
        "PHASE": _at("phase"),
        "READY": _at("ready"),
        "RESTARTS": _at("restarts"),
        "IP": _at("ip"),
        "AGE": _at("createdAt"),
        "DETAIL": _at("detail"),
    },
    "tenants": {
        "TENANT": _at("tenantId"),
        "WORKLOAD": _at("workloadRef"),
        "PHASE": _at("phase"),
        "SOURCE": _at("source"),
        "INSTANCE": _at("instanceId"),
        "ENDPOINT": _endpoint,
        "DETAIL": _at("detail"),
    },
    "images": {
        "NAME": _at("name"),
        "DIGEST": lambda item: str(item["digest"]).removeprefix("sha256:")[:12],
        "MB": lambda item: round(item["sizeBytes"] / 1e6, 1),
        "AGE": _at("importedAt"),
    },
    "secrets": {"NAME": _at("name"), "KEYS": _at("keys")},
    "configmaps": {"NAME": _at("name"), "KEYS": _at("keys")},
}

_SHORT = {"bhw": "workloads", "bhp": "pools", "bhc": "claims", "bht": "triggers"}


def plural_of(kind: str) -> str:
    """Return the collection that a kind means, by any name people have for it."""
    lower = kind.lower().removeprefix("boilerhouse")
    for candidate in (_SHORT.get(lower, lower), f"{lower}s"):
        if candidate in TABLES:
            return candidate
    raise Failure(f"{kind!r} is none of {', '.join(TABLES)}", 2)


def run(rest: Rest, kind: str, name: str | None, output: str) -> int:
    """Show all of a kind, or one."""
    plural = plural_of(kind)
    path = plural if name is None else f"{plural}/{segment(name)}"
    _, found = rest.call("GET", path)
    if not _is_ours(found):
        raise Failure(f"{rest.url} answers, but not as a Boilerhouse does: is it one?")
    if output == "json":
        print_json(found)
    elif output == "yaml":
        text = yaml.safe_dump(shaped(plural, found), sort_keys=False, allow_unicode=True)
        typer.echo(text, nl=False)
    else:
        items = found if isinstance(found, list) else [found]
        if output == "name":
            for item in items:
                typer.echo(f"{plural.removesuffix('s')}/{item.get('name') or item['tenantId']}")
        elif not items:
            typer.echo(f"there are no {plural}", err=True)
        else:
            typer.echo(table(TABLES[plural], _rows(plural, items), SystemClock().now()))
    return 0


def _is_ours(found: Any) -> bool:
    """Whether an answer has the shape of ours: some other server answers with JSON, too."""
    items = found if isinstance(found, list) else [found]
    return all(
        isinstance(item, Mapping) and ("name" in item or "tenantId" in item) for item in items
    )


def _rows(plural: str, items: Sequence[Item]) -> Sequence[Item]:
    if plural != "tenants":
        return items
    return [claim for tenant in items for claim in tenant.get("claims", ())]


def table(columns: Mapping[str, Cell], items: Sequence[Item], now: datetime) -> str:
    """Lay items out in columns; a last column that is empty throughout is left out."""
    rows = [[_shown(title, cell(item), now) for title, cell in columns.items()] for item in items]
    titles = list(columns)
    if titles[-1] == "DETAIL" and not any(row[-1] for row in rows):
        titles, rows = titles[:-1], [row[:-1] for row in rows]
    widths = [max(len(row[n]) for row in [titles, *rows]) for n in range(len(titles))]
    lines = [
        "   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in [titles, *rows]
    ]
    return "\n".join(lines)


def _shown(title: str, value: object, now: datetime) -> str:
    if value is None:
        return ""
    if title == "AGE":
        return age(now - parse_time(str(value)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    # What a tenant can influence must not move the cursor or start a new row.
    return "".join(c if c.isprintable() else "�" for c in str(value))


def age(passed: timedelta) -> str:
    """Say how long ago in one unit: 42s, 5m, 3h, 12d."""
    seconds = max(int(passed.total_seconds()), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
