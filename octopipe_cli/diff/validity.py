"""Whether a plan holds together: it has a timeline, and the figures it predicts are that timeline's."""

from __future__ import annotations

from collections.abc import Iterator

from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline

#: A finding: its place in the plan, and one sentence.
Finding = tuple[str, str]

#: A bubble ratio is written as a double; other orders of summation may end some bits apart.
_RATIO_TOLERANCE = 1e-9


def findings(plan: Plan) -> list[Finding]:
    """Return why a plan does not hold, from its file alone; empty where it does."""
    try:
        timeline = replay(plan, "plan")
    except InvalidPlanError as error:
        text = error.message + "".join(
            f", {label} {part}" for label, part in (("found", error.found), ("expected", error.expected)) if part
        )
        return [(error.path or "$", text)]
    return list(_wrong_figures(plan, timeline))


def _wrong_figures(plan: Plan, timeline: Timeline) -> Iterator[Finding]:
    said = plan.predicted
    for key in ("step_time_ns", "span_ns"):
        if getattr(said, key) != getattr(timeline, key):
            yield f"$.predicted.{key}", f"predicts {getattr(said, key)} ns, its orders give {getattr(timeline, key)} ns"
    if abs(said.bubble_ratio - timeline.bubble_ratio) > _RATIO_TOLERANCE:
        yield (
            "$.predicted.bubble_ratio",
            f"predicts a bubble ratio of {said.bubble_ratio!r}, its orders give {timeline.bubble_ratio!r}",
        )
    if [rank.rank for rank in said.ranks] != list(range(len(plan.ranks))):
        yield "$.predicted.ranks", f"not one prediction for each of its {len(plan.ranks)} ranks, in their order"
        return
    for rank, told in enumerate(said.ranks):
        for key, found in (
            ("busy_ns", timeline.busy_ns[rank]),
            ("peak_memory_bytes", timeline.peak_memory_bytes[rank]),
            ("first_start_ns", timeline.first_start_ns(rank)),
            ("last_end_ns", timeline.last_end_ns(rank)),
        ):
            if getattr(told, key) != found:
                unit = "ns" if key.endswith("_ns") else "bytes"
                path = f"$.predicted.ranks[{rank}].{key}"
                yield path, f"predicts {getattr(told, key)} {unit} for rank {rank}, its orders give {found} {unit}"


def compare_validity(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what does not hold in the new plan but did in the old one, and the other way round."""
    if _what_counts(old) == _what_counts(new):
        return  # what is wrong with the one is wrong with the other
    was, now = findings(old), findings(new)
    for path, text in now:
        if (path, text) not in was:
            yield thresholds.change("plan-invalid", path, f"the plan does not hold: {text}", None, text)
    for path, text in was:
        if (path, text) not in now:
            yield thresholds.change("plan-repaired", path, f"no longer wrong: {text}", text, None)


def _what_counts(plan: Plan) -> tuple[object, ...]:
    return plan.request.num_microbatches, plan.p2p, plan.ranks, plan.stages, plan.predicted, plan.orders
