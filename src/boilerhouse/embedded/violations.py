"""Everything that is wrong with an object by its schema and its rules, as one answer.

body, old ──► Schema.validate ──► Rules.check ──► causes
                    └── too broken for rules: one cause says that they were not looked at
"""

from __future__ import annotations

from typing import Any

from boilerhouse.embedded.cel import Rules, unchecked
from boilerhouse.embedded.schema import Schema
from boilerhouse.kube.status import Cause


def violations(
    schema: Schema,
    rules: Rules | None,
    body: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    status: bool = False,
) -> list[Cause]:
    """Judge a pruned and defaulted body; `old` on updates, `status` on writes to that subresource.

    Rules see the whole object whatever was written: a rule at the root may tie status to spec.
    """
    causes = schema.validate(body, old, status=status)
    if not rules:
        return causes
    skipped = unchecked(causes)
    return [*causes, skipped] if skipped else causes + rules.check(body, old)
