"""Rules that several built-in kinds share: names, ports, selectors, quantities.

Each takes the path of a field and its value and returns what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from boilerhouse.embedded.apiserver.kind import Body
from boilerhouse.embedded.fields.quantity import parse
from boilerhouse.embedded.fields.selectors import is_label_key, is_label_value
from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PERCENT = re.compile(r"[0-9]+%")

LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (at most 63 characters)"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (at most 253 characters)"
)
_PORT_WORDS = (
    "must be a port name: at most 15 lower case letters, digits and single dashes, with at least "
    "one letter"
)
_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (at most 253 "
    "characters, neither '.' nor starting with '..')"
)


def dns_label(field: str, value: str) -> list[Cause]:
    return [] if _LABEL.fullmatch(value) else [invalid_value(field, value, LABEL_WORDS)]


def dns_subdomain(field: str, value: str) -> list[Cause]:
    if len(value) <= 253 and _SUBDOMAIN.fullmatch(value):
        return []
    return [invalid_value(field, value, _SUBDOMAIN_WORDS)]


def port_number(field: str, value: int) -> list[Cause]:
    if 1 <= value <= 65535:
        return []
    return [invalid_value(field, value, "must be between 1 and 65535, inclusive")]


def named_port(field: str, value: str) -> list[Cause]:
    if len(value) <= 15 and _PORT_NAME.fullmatch(value):
        return []
    return [invalid_value(field, value, _PORT_WORDS)]


def config_key(field: str, value: str) -> list[Cause]:
    legal = len(value) <= 253 and _CONFIG_KEY.fullmatch(value)
    if legal and value != "." and not value.startswith(".."):
        return []
    return [invalid_value(field, value, _KEY_WORDS)]


def not_negative(field: str, value: int) -> list[Cause]:
    if value >= 0:
        return []
    return [invalid_value(field, value, "must be greater than or equal to 0")]


def count_or_percent(field: str, value: int | str) -> list[Cause]:
    """Check an IntOrString that is a number of Pods, or a share of them."""
    if isinstance(value, int):
        return not_negative(field, value)
    if not _PERCENT.fullmatch(value):
        words = "a valid percent string must be a numeric string followed by an ending '%'"
        return [invalid_value(field, value, words)]
    if int(value[:-1]) > 100:
        return [invalid_value(field, value, "must not be greater than 100%")]
    return []


def resource_map(field: str, resources: Mapping[str, str]) -> list[Cause]:
    """Check a map of resource names to quantities."""
    causes: list[Cause] = []
    for name, value in resources.items():
        where = f"{field}[{name}]"
        if not is_label_key(name):
            causes.append(invalid_value(where, name, "must be a qualified resource name"))
        if parse(value).nanos < 0:
            causes.append(invalid_value(where, value, "must be greater than or equal to 0"))
    return causes


def labels(field: str, found: Mapping[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in found.items():
        if not is_label_key(key):
            causes.append(invalid_value(field, key, "is no legal label key"))
        if not is_label_value(value):
            causes.append(invalid_value(field, value, "is no legal label value"))
    return causes


def label_selector(field: str, selector: Body | None) -> list[Cause]:
    """Check a LabelSelector."""
    if selector is None:
        return []
    causes = labels(f"{field}.matchLabels", selector.get("matchLabels", {}))
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        where = f"{field}.matchExpressions[{index}]"
        operator, values = expression["operator"], expression.get("values", [])
        if not is_label_key(expression["key"]):
            causes.append(invalid_value(f"{where}.key", expression["key"], "is no legal label key"))
        if operator in ("In", "NotIn"):
            if not values:
                why = "must be specified when `operator` is 'In' or 'NotIn'"
                causes.append(required(f"{where}.values", why))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden_field(f"{where}.values", why))
        else:
            causes.append(
                invalid_value(f"{where}.operator", operator, "not a valid selector operator")
            )
        for number, value in enumerate(values):
            if not is_label_value(value):
                where_value = f"{where}.values[{number}]"
                causes.append(invalid_value(where_value, value, "is no legal label value"))
    return causes


def one_of(field: str, value: Any, allowed: tuple[str, ...]) -> list[Cause]:
    return [] if value in allowed else [unsupported_value(field, value, allowed)]


def unchanged(field: str, new: Any, old: Any) -> list[Cause]:
    return [] if new == old else [invalid_value(field, new, "field is immutable")]
