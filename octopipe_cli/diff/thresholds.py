"""What counts as how much worse: thresholds and effects by id, and changes judged by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from octopipe_cli.diff.change import Change, Effect
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.words import decimal_text

#: How much larger something is, in its kind's unit; infinite where nothing was there before.
Amount = Fraction | float

_UNIT_WORDS: Final = {"percent": " %", "points": " percentage points"}


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How changes are judged.

    Attributes
    ----------
    limits
        Id -> how large such a change may be and still be neutral, in the unit of its kind.
    effects
        Id -> the effect it has instead of its kind's (beyond its limit, where it has one).
    min_headroom_bytes
        What must be left of a rank's memory limit (at least 0: a rank must not exceed it).
    """

    limits: Mapping[str, Fraction] = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    min_headroom_bytes: int = 0

    def change(
        self,
        name: str,
        path: str,
        message: str,
        old: Any = None,
        new: Any = None,
        *,
        amount: Amount | None = None,
        effect: Effect | None = None,
        details: Iterable[str] = (),
    ) -> Change:
        """Return a change of that id, judged; `effect` replaces its kind's own, the user's wins over both."""
        kind = KINDS[name]
        limit = self.limits.get(name)
        lines = tuple(details)
        if limit is None or amount is None:
            found = self.effects.get(name) or effect or kind.effect
        else:
            within = amount <= limit
            found = "neutral" if within else self.effects.get(name) or kind.beyond
            shown = decimal_text(limit.numerator, limit.denominator, 2) + _UNIT_WORDS[kind.unit or "percent"]
            lines = (f"{'within' if within else 'beyond'} the threshold of {shown}", *lines)
        return Change(name, found, path, message, old, new, lines)


def growth(old: int | float, new: int | float) -> Amount:
    """Return by how much per cent of the old value two values differ; infinite where the old one is 0."""
    return abs(Fraction(new) - Fraction(old)) * 100 / abs(Fraction(old)) if old else float("inf")
