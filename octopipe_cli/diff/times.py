"""What a plan costs in time: step time, span, bubbles, bound, baseline."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change, Effect
from octopipe_cli.diff.thresholds import Thresholds, growth
from octopipe_cli.plan import Plan, PredictedRank
from octopipe_cli.words import time_text


def compare_times(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in the predicted times and the bounds."""
    a, b = old.predicted, new.predicted
    if a.step_time_ns != b.step_time_ns:
        details = _per_microbatch(old, new)
        yield _time(
            thresholds,
            ("step-time-slower", "step-time-faster"),
            "$.predicted.step_time_ns",
            "the step time",
            a.step_time_ns,
            b.step_time_ns,
            details=details,
        )
    if a.span_ns != b.span_ns:
        slower = b.span_ns > a.span_ns
        by_span = old.request.objective == new.request.objective == "span"
        effect: Effect | None = ("regression" if slower else "improvement") if by_span else None
        yield _time(
            thresholds,
            ("span-longer", "span-shorter"),
            "$.predicted.span_ns",
            "the span",
            a.span_ns,
            b.span_ns,
            effect=effect,
        )
    if a.bubble_ratio != b.bubble_ratio:
        yield _ratio(
            thresholds,
            ("bubble-ratio-higher", "bubble-ratio-lower"),
            "$.predicted.bubble_ratio",
            "the bubble ratio",
            a.bubble_ratio,
            b.bubble_ratio,
        )
    yield from _bounds(old, new, thresholds)
    yield from _baseline(old, new, thresholds)
    yield from _rank_times(old, new, thresholds)


def _per_microbatch(old: Plan, new: Plan) -> tuple[str, ...]:
    """Return what a micro-batch costs where the plans run different numbers of them: the step times alone mislead."""
    counts = old.request.num_microbatches, new.request.num_microbatches
    if counts[0] == counts[1]:
        return ()
    each = [plan.predicted.step_time_ns // plan.request.num_microbatches for plan in (old, new)]
    return (f"for {counts[0]} micro-batches before and {counts[1]} now: {figures.times(each[0], each[1])} for each",)


def _time(
    thresholds: Thresholds,
    names: tuple[str, str],
    path: str,
    what: str,
    old_ns: int,
    new_ns: int,
    *,
    effect: Effect | None = None,
    details: tuple[str, ...] = (),
) -> Change:
    """Return the change of a time: the first of the ids where it grows, else the second."""
    grows = new_ns > old_ns
    message = f"{what} {'grows' if grows else 'falls'} from {figures.times(old_ns, new_ns)}"
    return thresholds.change(
        names[0] if grows else names[1],
        path,
        message,
        old_ns,
        new_ns,
        amount=growth(old_ns, new_ns),
        effect=effect,
        details=details,
    )


def _ratio(thresholds: Thresholds, names: tuple[str, str], path: str, what: str, old: float, new: float) -> Change:
    grows = new > old
    message = f"{what} {'grows' if grows else 'falls'} from {figures.ratios(old, new)}"
    amount = abs(Fraction(new) - Fraction(old)) * 100
    return thresholds.change(names[0] if grows else names[1], path, message, old, new, amount=amount)


def _bounds(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    a, b = old.bound, new.bound
    if a.gap != b.gap:
        yield _ratio(thresholds, ("gap-larger", "gap-smaller"), "$.bound.gap", "the gap to the bound", a.gap, b.gap)
    for key, names, what in (
        ("step_time_ns", ("bound-higher", "bound-lower"), "the certified bound"),
        ("plan_ns", ("plan-bound-higher", "plan-bound-lower"), "the bound of this partition and placement"),
        ("span_ns", ("span-bound-higher", "span-bound-lower"), "the certified bound of the span"),
    ):
        was, now = getattr(a, key), getattr(b, key)
        if was is None or now is None:
            if was != now:  # no bound says less than any
                before, after = ("none" if x is None else time_text(x) for x in (was, now))
                message = f"{what}: {after} (before: {before})"
                name = names[0] if was is None else names[1]
                yield thresholds.change(name, f"$.bound.{key}", message, was, now, amount=float("inf"))
        elif was != now:
            yield _time(thresholds, names, f"$.bound.{key}", what, was, now)
    if a.scope != b.scope:
        message = f"the bound speaks of: {b.scope}; before of: {a.scope}"
        yield thresholds.change("bound-scope-changed", "$.bound.scope", message, a.scope, b.scope)


def _baseline(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    a, b = old.baseline, new.baseline
    if a is None or b is None:
        if a is not None:
            message = f"no classic schedule to compare with any more (before: {a.schedule})"
            yield thresholds.change("baseline-removed", "$.baseline", message, a.schedule, None)
        if b is not None:
            message = f"the best classic schedule is named: {b.schedule}, {time_text(b.step_time_ns)}"
            yield thresholds.change("baseline-added", "$.baseline", message, None, b.schedule)
        return
    before, after = (f"{x.schedule}{f', {x.partition} partition' if x.partition else ''}" for x in (a, b))
    if before != after:
        message = f"the best classic schedule is {after} instead of {before}"
        yield thresholds.change("baseline-changed", "$.baseline.schedule", message, before, after)
    if a.step_time_ns != b.step_time_ns:
        yield _time(
            thresholds,
            ("baseline-slower", "baseline-faster"),
            "$.baseline.step_time_ns",
            "the step time of the best classic schedule",
            a.step_time_ns,
            b.step_time_ns,
        )
    if a.speedup != b.speedup:
        falls = b.speedup < a.speedup
        message = f"the speed-up over the best classic schedule {'falls' if falls else 'grows'}"
        message += f" from {a.speedup:.3f} to {b.speedup:.3f} ({figures.change_in_percent(a.speedup, b.speedup)})"
        name = "speedup-lower" if falls else "speedup-higher"
        amount = growth(a.speedup, b.speedup)
        yield thresholds.change(name, "$.baseline.speedup", message, a.speedup, b.speedup, amount=amount)


def _rank_times(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield one change where ranks are busy otherwise, a detail a rank."""
    before, after = ({rank.rank: rank for rank in plan.predicted.ranks} for plan in (old, new))
    lines = [
        f"rank {rank}: {'; '.join(parts)}"
        for rank, now in after.items()
        if rank in before and (parts := _rank_parts(before[rank], now))
    ]
    if lines:
        message = f"{len(lines)} of {len(after)} ranks are busy for another time, or start or end otherwise"
        yield thresholds.change("rank-times-changed", "$.predicted.ranks", message, details=figures.listed(lines))


def _rank_parts(old: PredictedRank, new: PredictedRank) -> list[str]:
    parts = []
    for key, what in (("busy_ns", "busy"), ("first_start_ns", "first start"), ("last_end_ns", "last end")):
        was, now = getattr(old, key), getattr(new, key)
        if was != now:
            parts.append(f"{what} {figures.times(was, now)}")
    return parts
