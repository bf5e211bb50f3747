"""What a mutant is: one small wrong change, and who must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """Replaces `right`, which stands once in the module, by `wrong`."""

    module: str
    right: str
    wrong: str
    caught_by: str

    def applied_to(self, source: str) -> str:
        found = source.count(self.right)
        if found != 1:
            raise LookupError(f"{self.module} has {self.right!r} {found} times: pin it anew")
        return source.replace(self.right, self.wrong)
