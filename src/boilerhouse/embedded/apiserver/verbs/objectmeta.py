"""The rules of `metadata`, the same for every kind: names, labels, owners, finalizers, immutables.

create ──► born() ──► check_new()          update ──► carried() ──► check_change()

Pure: what a client may say about metadata, what the server says, and every reason to refuse.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from boilerhouse.core.clock import new_rng, new_uid
from boilerhouse.embedded.apiserver.kind import Body, Kind
from boilerhouse.platform.kube.status import (
    Cause,
    forbidden_field,
    invalid_value,
    required,
    too_long,
)

# What real servers draw generated names from: no vowels, so no words.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_MAX_GENERATED = 63 - _SUFFIX
_random = new_rng()

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_label1035 = re.compile(_LABEL1035).fullmatch
_qualified = re.compile(_QUALIFIED).fullmatch

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    rf"for validation is '{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL}')"
)
_LABEL1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_LABEL1035}')"
)
_QUALIFIED_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    f"alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_MAX_ANNOTATIONS = 256 * 1024
_NAMES_AN_OWNER = ("apiVersion", "kind", "name", "uid")
# What only the server says. A client may send it back, never change it.
_KEPT = ("creationTimestamp", "generation", "deletionGracePeriodSeconds", "generateName")


def metadata_of(body: Body) -> dict[str, Any]:
    """Return the metadata of a pruned body, made if absent."""
    metadata: dict[str, Any] = body.setdefault("metadata", {})
    return metadata


def tidy(metadata: dict[str, Any]) -> None:
    """Drop what is never kept: managed fields and self links. The schema has pruned the rest."""
    metadata.pop("managedFields", None)
    metadata.pop("selfLink", None)


def born(kind: Kind, metadata: dict[str, Any], now: str) -> None:
    """Write what the server says of a new object, over whatever the client said."""
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now
    if kind.generation:
        metadata["generation"] = 1


def generated_name(prefix: str) -> str:
    return prefix[:_MAX_GENERATED] + "".join(_random.choices(_LETTERS, k=_SUFFIX))


def carried(metadata: dict[str, Any], old: dict[str, Any]) -> None:
    """Fill in what the client left out and may not change."""
    if metadata == old:
        return
    # Another uid, or a time where there was none, is refused by check_change.
    if "uid" in old:
        metadata.setdefault("uid", old["uid"])
    if "deletionTimestamp" in old:
        metadata["deletionTimestamp"] = old["deletionTimestamp"]  # as a real server has it
    for name in _KEPT:
        if name in old:
            metadata[name] = old[name]
        else:
            metadata.pop(name, None)


def check_new(kind: Kind, metadata: dict[str, Any]) -> list[Cause]:
    """Return everything wrong with the metadata of an object to be created."""
    causes: list[Cause] = []
    generate = metadata.get("generateName", "")
    if generate:
        # The prefix alone may end in what a name may not end in.
        causes += name_causes(kind, generate.rstrip("-.") + "a", "metadata.generateName", generate)
    name = metadata.get("name", "")
    if not name:
        return [*causes, required("metadata.name", "name or generateName is required")]
    causes += name_causes(kind, name, "metadata.name", name)
    return causes + _common(kind, metadata, {})


def check_change(kind: Kind, metadata: dict[str, Any], old: dict[str, Any]) -> list[Cause]:
    """Return everything wrong with a change of metadata."""
    if metadata == old:
        return []
    causes: list[Cause] = []
    for name in ("uid", "deletionTimestamp"):
        value = metadata.get(name)
        if value is not None and value != old.get(name):
            causes.append(invalid_value(f"metadata.{name}", value, "field is immutable"))
    if "deletionTimestamp" in old:
        before = set(old.get("finalizers", ()))
        added = [name for name in metadata.get("finalizers", ()) if name not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            causes.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    return causes + _common(kind, metadata, old)


def name_causes(kind: Kind, name: str, field: str, shown: str) -> list[Cause]:
    return [invalid_value(field, shown, rule) for rule in _name_errors(kind.name_rule, name)]


@lru_cache(maxsize=4096)
def _name_errors(rule: str, name: str) -> tuple[str, ...]:
    if rule == "label":
        limit, matches, words = 63, _label, _LABEL_RULE
    elif rule == "label1035":
        limit, matches, words = 63, _label1035, _LABEL1035_RULE
    else:
        limit, matches, words = 253, _subdomain, _SUBDOMAIN_RULE
    errors = [] if matches(name) else [words]
    if len(name) > limit:
        errors.insert(0, f"must be no more than {limit} characters")
    return tuple(errors)


def _common(kind: Kind, metadata: dict[str, Any], old: dict[str, Any]) -> list[Cause]:
    """Return what is wrong with the fields that are not the very ones which `old` has."""
    causes: list[Cause] = []
    labels, before = metadata.get("labels"), old.get("labels")
    if labels and labels is not before:
        causes += _label_causes(labels, before or {})
    annotations, before = metadata.get("annotations"), old.get("annotations")
    if annotations and annotations is not before:
        causes += _annotation_causes(annotations, before or {})
    owners = metadata.get("ownerReferences")
    if owners and owners is not old.get("ownerReferences"):
        causes += _owner_causes(owners)
    finalizers = metadata.get("finalizers")
    if finalizers and finalizers is not old.get("finalizers"):
        causes += _finalizer_causes(kind, finalizers)
    return causes


def _label_causes(labels: dict[str, str], before: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in sorted(labels.items() - before.items()):
        if rules := _key_errors(key):
            causes += [invalid_value("metadata.labels", key, rule) for rule in rules]
        if rules := _value_errors(value):
            causes += [invalid_value("metadata.labels", value, rule) for rule in rules]
    return causes


def _annotation_causes(annotations: dict[str, str], before: dict[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    for key in sorted(annotations.keys() - before.keys()):
        if rules := _key_errors(key.lower()):
            causes += [invalid_value("metadata.annotations", key, rule) for rule in rules]
    size = sum(map(len, annotations)) + sum(map(len, annotations.values()))
    if size > _MAX_ANNOTATIONS // 4:  # of characters, of which none is more than four bytes
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS:
            causes.append(too_long("metadata.annotations", _MAX_ANNOTATIONS))
    return causes


def _finalizer_causes(kind: Kind, finalizers: list[str]) -> list[Cause]:
    causes: list[Cause] = []
    # Definitions and custom objects may have finalizers without a domain, and definitions do.
    qualified = not kind.custom and kind.group != "apiextensions.k8s.io"
    for index, name in enumerate(finalizers):
        causes += [invalid_value("metadata.finalizers", name, rule) for rule in _key_errors(name)]
        if qualified and "/" not in name and name not in _STANDARD_FINALIZERS:
            causes.append(
                invalid_value(
                    f"metadata.finalizers[{index}]",
                    name,
                    "name is neither a standard finalizer name nor is it fully qualified",
                )
            )
    return causes


def _owner_causes(owners: Any) -> list[Cause]:
    causes: list[Cause] = []
    for owner in owners:
        for name in _NAMES_AN_OWNER:
            if not owner.get(name):
                field = f"metadata.ownerReferences.{name}"
                causes.append(invalid_value(field, "", "must not be empty"))
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            why = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(invalid_value("metadata.ownerReferences", owner, why))
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{o.get('kind')}/{o.get('name')}" for o in controllers[:2])
        causes.append(
            invalid_value(
                "metadata.ownerReferences",
                list(owners),
                'Only one reference can have Controller set to true. Found "true" in '
                f"references for {first} and {second}",
            )
        )
    return causes


@lru_cache(maxsize=4096)
def _key_errors(key: str) -> tuple[str, ...]:
    prefix, slash, name = key.rpartition("/")
    errors: list[str] = []
    if "/" in prefix:
        return (f"a qualified name {_QUALIFIED_RULE} with an optional DNS subdomain prefix and '/'"
                " (e.g. 'example.com/MyName')",)  # fmt: skip
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > 253:
            errors.append("prefix part must be no more than 253 characters")
        if not _subdomain(prefix):
            errors.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 characters")
    if not _qualified(name):
        errors.append(f"name part {_QUALIFIED_RULE}")
    return tuple(errors)


@lru_cache(maxsize=8192)
def _value_errors(value: str) -> tuple[str, ...]:
    errors = []
    if len(value) > 63:
        errors.append("must be no more than 63 characters")
    if value and not _qualified(value):
        errors.append(_VALUE_RULE)
    return tuple(errors)
