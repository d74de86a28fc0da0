"""A comparison of plans as a JSON document, and the record whose schema is published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from octopipe_cli.diff.change import Change, Effect, PlanDiff
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.diff.memory import least_headroom
from octopipe_cli.plan import Plan
from octopipe_cli.render.diff.headline import failing_keys, key_of
from octopipe_cli.render.diff.interface import DiffFormat

SCHEMA: Final = "octopipe.diff"
ChangeId = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(KINDS)})]


class _Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what is written: every key is always there."""


class ChangeRecord(_Written, frozen=True, kw_only=True):
    """A change; `path` is its place in the new plan, `old` and `new` are JSON values (_ns times, memory in bytes)."""

    id: ChangeId
    effect: Effect
    fails: bool
    path: str
    message: str
    old: Any
    new: Any
    details: tuple[str, ...]


class FiguresRecord(_Written, frozen=True, kw_only=True):
    """The figures of a plan that decide most."""

    step_time_ns: int
    span_ns: int
    bubble_ratio: float
    bound_ns: int
    gap: float
    least_headroom_bytes: int | None


class PlanRecord(_Written, frozen=True, kw_only=True):
    """The comparison of two plans; a file, and its figures, are null where there is no plan."""

    old: str | None
    new: str | None
    fails: bool
    old_figures: FiguresRecord | None
    new_figures: FiguresRecord | None
    changes: list[ChangeRecord]


class DiffDocument(_Written, frozen=True, kw_only=True):
    """What ``octopipe diff --format json`` prints."""

    schema: Literal["octopipe.diff"]
    version: Literal[1]
    fails: bool
    plans: list[PlanRecord]


class JsonFormat(DiffFormat):
    """JSON for programs, by the schema that ``octopipe schema diff`` prints."""

    def format(self, reports: Sequence[PlanDiff]) -> str:
        """Return the document as indented JSON."""
        return json.dumps(msgspec.to_builtins(document(reports)), indent=2, ensure_ascii=False) + "\n"


def document(reports: Sequence[PlanDiff]) -> DiffDocument:
    """Return comparisons as a document."""
    return DiffDocument(
        schema="octopipe.diff",
        version=1,
        fails=any(report.failing for report in reports),
        plans=[_plan(report) for report in reports],
    )


def _plan(report: PlanDiff) -> PlanRecord:
    failing = failing_keys(report)
    return PlanRecord(
        old=report.old_file,
        new=report.new_file,
        fails=bool(report.failing),
        old_figures=_figures(report.old),
        new_figures=_figures(report.new),
        changes=[_change(change, key_of(change) in failing) for change in report.changes],
    )


def _change(change: Change, fails: bool) -> ChangeRecord:
    return ChangeRecord(
        id=change.id,
        effect=change.effect,
        fails=fails,
        path=change.path,
        message=change.message,
        old=change.old,
        new=change.new,
        details=change.details,
    )


def _figures(plan: Plan | None) -> FiguresRecord | None:
    if plan is None:
        return None
    least = least_headroom(plan)
    return FiguresRecord(
        step_time_ns=plan.predicted.step_time_ns,
        span_ns=plan.predicted.span_ns,
        bubble_ratio=plan.predicted.bubble_ratio,
        bound_ns=plan.bound.step_time_ns,
        gap=plan.bound.gap,
        least_headroom_bytes=None if least is None else least[0],
    )
