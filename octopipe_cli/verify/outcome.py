"""Rules of what the plan says it costs, held against the verifier's own replay."""

from __future__ import annotations

from octopipe_cli.verify.case import Case, Found
from octopipe_cli.verify.replay import Deadlock

TOLERANCE = 1e-9


def _near(found: float, expected: float) -> bool:
    return abs(found - expected) <= TOLERANCE * max(1.0, abs(expected))  # false for NaN


def no_deadlock(case: Case) -> Found:
    """Orders that do not wait for themselves."""
    if isinstance(case.played, Deadlock):
        circle = case.played.circle
        yield "$.orders", f"found {' waits for '.join((*circle, circle[0]))}, expected orders without a circle"


def step_time_matches(case: Case) -> Found:
    """The step time, flush and step_ms included."""
    found, expected = case.plan.predicted.step_time_ns, case.timeline.step_time_ns
    if found != expected:
        yield "$.predicted.step_time_ns", f"found {found} ns, expected {expected} ns"


def span_matches(case: Case) -> Found:
    """The longest of the ranks' own spans."""
    found, expected = case.plan.predicted.span_ns, case.timeline.span_ns
    if found != expected:
        yield "$.predicted.span_ns", f"found {found} ns, expected {expected} ns"


def bubble_ratio_matches(case: Case) -> Found:
    """The bubble ratio."""
    found, expected = case.plan.predicted.bubble_ratio, case.timeline.bubble_ratio
    if not _near(found, expected):
        yield "$.predicted.bubble_ratio", f"found {found!r}, expected {expected!r}"


def rank_times_match(case: Case) -> Found:
    """Busy time, first start and last end of every rank."""
    played = case.timeline
    for r, said in enumerate(case.plan.predicted.ranks):
        for key, found, expected in (
            ("busy_ns", said.busy_ns, played.busy_ns[r]),
            ("first_start_ns", said.first_start_ns, played.first_start_ns[r]),
            ("last_end_ns", said.last_end_ns, played.last_end_ns[r]),
        ):
            if found != expected:
                yield f"$.predicted.ranks[{r}].{key}", f"found {found} ns, expected {expected} ns"


def peak_memory_matches(case: Case) -> Found:
    """Peak memory of every rank."""
    for r, (said, expected) in enumerate(zip(case.plan.predicted.ranks, case.timeline.peak_bytes, strict=True)):
        if said.peak_memory_bytes != expected:
            path = f"$.predicted.ranks[{r}].peak_memory_bytes"
            yield path, f"found {said.peak_memory_bytes} bytes, expected {expected} bytes"


def memory_fits(case: Case) -> Found:
    """Peak memory, with what the engine keeps, within every rank's limit."""
    for r, (member, peak) in enumerate(zip(case.members, case.timeline.peak_bytes, strict=True)):
        engine = case.plan.predicted.ranks[r].engine_memory_bytes
        limit = member.memory_limit_bytes
        if limit is not None and peak + engine > limit:
            kept = f" and {engine} of the engine" if engine else ""
            yield f"$.predicted.ranks[{r}]", f"found {peak} bytes{kept}, expected at most {limit} bytes"


def bound_holds(case: Case) -> Found:
    """No bound above the time it bounds; a span bound where the span is the objective."""
    bound, played = case.plan.bound, case.timeline
    for key, found, most in (
        ("step_time_ns", bound.step_time_ns, played.step_time_ns),
        ("plan_ns", bound.plan_ns, played.step_time_ns),
        ("span_ns", bound.span_ns, played.span_ns),
    ):
        if found is not None and found > most:
            yield f"$.bound.{key}", f"found {found} ns, expected at most the plan's own {most} ns"
    if case.plan.request.objective == "span" and bound.span_ns is None:
        yield "$.bound", "found no span_ns, expected one: the objective is the span"


def gap_matches(case: Case) -> Found:
    """The gap of the objective to its bound."""
    bound, played = case.plan.bound, case.timeline
    least, reached = bound.step_time_ns, played.step_time_ns
    if case.plan.request.objective == "span":
        if bound.span_ns is None:
            return  # said already: no bound to take a gap to
        least, reached = bound.span_ns, played.span_ns
    expected = (reached - least) / least if least else 0.0
    if not _near(bound.gap, expected):
        yield "$.bound.gap", f"found {bound.gap!r}, expected {expected!r}"


def speedup_matches(case: Case) -> Found:
    """The speed-up over the baseline."""
    baseline, step_time_ns = case.plan.baseline, case.timeline.step_time_ns
    if baseline is None:
        return
    if not step_time_ns:
        yield "$.baseline", "found a speed-up, expected no baseline: the step takes no time"
        return
    expected = baseline.step_time_ns / step_time_ns
    if not _near(baseline.speedup, expected):
        yield "$.baseline.speedup", f"found {baseline.speedup!r}, expected {expected!r}"
