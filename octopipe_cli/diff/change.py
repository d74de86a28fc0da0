"""The record of one change between two plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: Whether a change makes the plan worse, better, or only different.
Effect = Literal["regression", "improvement", "neutral"]


@dataclass(frozen=True, slots=True)
class Change:
    """One change from an old plan to a new one.

    Attributes
    ----------
    id
        The stable id of its kind, one of `octopipe_cli.diff.kinds.KINDS`: ``step-time-slower``.
    effect
        Whether it makes the plan worse; what `--fail-on regression` looks at.
    path
        The place in the new plan (in the old one where it is gone): ``$.predicted.step_time_ns``.
    message
        One sentence for a reviewer, plain text, names from files not yet made safe for any output.
    old, new
        What stood there and what stands there now, JSON values (times in ns, memory in bytes); None where nothing did.
    details
        Further lines for a reviewer who wants to know more.
    """

    id: str
    effect: Effect
    path: str
    message: str
    old: Any = None
    new: Any = None
    details: tuple[str, ...] = ()
