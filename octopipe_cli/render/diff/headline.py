"""What every format says first of a comparison: which plans, the verdict, the figures that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple, TypeVar

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change, Effect, PlanDiff
from octopipe_cli.diff.memory import least_headroom, memory_of
from octopipe_cli.plan import Plan
from octopipe_cli.words import decimal_text, size_text, time_text

_HEADS: dict[Effect, str] = {
    "regression": "regressions",
    "improvement": "improvements",
    "neutral": "other changes",
}


_Value = TypeVar("_Value")
#: A value of the old plan and of the new one.
_Both = tuple[_Value | None, _Value | None]


class Figure(NamedTuple):
    """A figure of both plans in words; empty where a plan, or the figure in it, is missing.

    `brief`: it belongs into the summary line.
    """

    name: str
    before: str
    after: str
    change: str = ""
    brief: bool = False

    @property
    def differs(self) -> bool:
        """Whether it is another one now."""
        return self.before != self.after


class Group(NamedTuple):
    """Changes under one heading."""

    name: str
    fails: bool
    effect: Effect
    changes: list[Change]


def name_of(report: PlanDiff) -> str:
    """Return the file that a comparison is about, as the user named it."""
    return report.new_file or report.old_file or "plan"


def subject(report: PlanDiff, arrow: str = "->") -> str:
    """Return both files: ``old.json -> new.json``, one where there is no other."""
    if report.old is None:
        return f"{name_of(report)} (new)"
    if report.new is None:
        return f"{name_of(report)} (deleted)"
    return f"{report.old_file} {arrow} {report.new_file}"


def verdict(report: PlanDiff) -> str:
    """Return in words how many changes there are and how many of them fail."""
    count, failing = len(report.changes), len(report.failing)
    if not count:
        return "no differences"
    changes = "1 change" if count == 1 else f"{count} changes"
    if not failing:
        return f"{changes}, {'it does not fail' if count == 1 else 'none of them fails'}"
    if failing == count:
        return "1 change, it fails" if count == 1 else f"{changes}, all of them fail"
    return f"{changes}, {failing} of them {'fails' if failing == 1 else 'fail'}"


def groups(report: PlanDiff) -> Iterator[Group]:
    """Yield the changes, those that fail first, then by their effect; none is empty."""
    failing = failing_keys(report)
    if report.failing:
        yield Group("fails", True, "regression", list(report.failing))
    for effect, name in _HEADS.items():
        found = [change for change in report.changes if change.effect == effect and key_of(change) not in failing]
        if found:
            yield Group(name, False, effect, found)


def failing_keys(report: PlanDiff) -> set[tuple[str, str, str]]:
    """Return the `key_of` each change that fails."""
    return {key_of(change) for change in report.failing}


def key_of(change: Change) -> tuple[str, str, str]:
    """Return what tells a change of a comparison from the others."""
    return change.id, change.path, change.message


def summary(report: PlanDiff, arrow: str = "->") -> str:
    """Return the summary line: step time, bubbles, gap, least headroom."""
    parts = []
    for figure in figures_of(report):
        if not figure.brief:
            continue
        if figure.differs and figure.before and figure.after:
            change = f" ({figure.change})" if figure.change else ""
            parts.append(f"{figure.name} {figure.before} {arrow} {figure.after}{change}")
        else:
            parts.append(f"{figure.name} {figure.after or figure.before}")
    return ", ".join(parts)


def figures_of(report: PlanDiff) -> list[Figure]:
    """Return the figures of both plans that a reviewer looks at, in a fixed order."""

    def of(value: Callable[[Plan], _Value | None]) -> _Both[_Value]:
        old, new = report.old, report.new
        return None if old is None else value(old), None if new is None else value(new)

    by_span = any(plan is not None and plan.request.objective == "span" for plan in (report.old, report.new))
    found = [
        _amount("step time", of(lambda plan: plan.predicted.step_time_ns), time_text, "ns", brief=True),
        _amount("span", of(lambda plan: plan.predicted.span_ns), time_text, "ns", brief=by_span),
        _ratio("bubbles", of(lambda plan: plan.predicted.bubble_ratio)),
        _ratio("above the bound", of(lambda plan: plan.bound.gap)),
        _amount("bound", of(lambda plan: plan.bound.step_time_ns), time_text, "ns"),
    ]
    headroom = of(least_headroom)
    if headroom != (None, None):
        found.append(
            _plain(
                "least headroom", headroom, lambda least: f"{figures.headroom(least[0])} (rank {least[1]})"
            )._replace(brief=True)
        )
    peaks = of(_highest_peak)
    if any(peaks):
        found.append(_amount("highest peak memory", peaks, size_text, "bytes"))
    return [
        *found,
        _plain("ranks", of(lambda plan: len(plan.ranks)), str),
        _plain("stages", of(lambda plan: len(plan.stages)), str),
        _plain("recomputing stages", of(lambda plan: sum(stage.recompute for stage in plan.stages)), str),
        _plain("micro-batches", of(lambda plan: plan.request.num_microbatches), str),
    ]


def _plain(name: str, both: _Both[_Value], text: Callable[[_Value], str]) -> Figure:
    before, after = ("" if value is None else text(value) for value in both)
    return Figure(name, before, after)


def _amount(name: str, both: _Both[int], text: Callable[[int], str], unit: str, brief: bool = False) -> Figure:
    """Return times or sizes, and by how much they differ."""
    old, new = both
    if old is None or new is None:
        return _plain(name, both, text)._replace(brief=brief)
    before, after = figures.pair(old, new, text, unit)
    return Figure(name, before, after, figures.change_in_percent(old, new) if old != new else "", brief)


def _ratio(name: str, both: _Both[float]) -> Figure:
    """Return a ratio in per cent: one decimal, two where it takes them to tell the plans apart."""
    coarse, fine = (
        _plain(name, both, lambda ratio: _percent(ratio, 1)),
        _plain(name, both, lambda ratio: _percent(ratio, 2)),
    )
    return (fine if fine.differs and not coarse.differs else coarse)._replace(brief=True)


def _percent(ratio: float, digits: int) -> str:
    exact = Fraction(ratio) * 100
    return f"{decimal_text(exact.numerator, exact.denominator, digits)} %"


def _highest_peak(plan: Plan) -> int | None:
    return max((memory.peak for memory in memory_of(plan).values()), default=None)
