"""The record of one change between two plans, and of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from octopipe_cli.plan import Plan

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


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What a comparison of two plan files found.

    Attributes
    ----------
    old_file, new_file
        The files as the user named them (``main:plans/a.json`` where from git); None where there is no plan.
    old, new
        The plans; None where there is none: the plan is new, or deleted.
    changes
        Every change, in the fixed order of `compare_plans`.
    failing
        Those of them that `--fail-on` fails for.
    """

    old_file: str | None
    new_file: str | None
    old: Plan | None
    new: Plan | None
    changes: list[Change]
    failing: list[Change]
