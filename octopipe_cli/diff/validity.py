"""Whether a plan holds together: it has a timeline, and the figures it predicts are that timeline's."""

from __future__ import annotations

from collections.abc import Iterator

from octopipe_cli.diff.change import Change
from octopipe_cli.diff.figures import listed
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.errors import InputError, InvalidPlanError
from octopipe_cli.plan import Plan, content_digest, is_edited
from octopipe_cli.replay import NeedsInputsError, replay
from octopipe_cli.simulate import Timeline

#: A finding: its place in the plan, and one sentence.
Finding = tuple[str, str]

#: A bubble ratio is written as a double; other orders of summation may end some bits apart.
_RATIO_TOLERANCE = 1e-9


def findings(plan: Plan) -> list[Finding]:
    """Return why a plan does not hold, from its file alone; empty where it does."""
    edited = []
    if is_edited(plan):
        now = content_digest(plan)
        text = f"changed by hand after it was written: its content has the digest {now}, not {plan.content_digest}"
        edited = [("$.content_digest", text)]
    try:
        timeline = replay(plan, "plan")
    except NeedsInputsError:
        return edited  # what it predicts cannot be judged from the file alone
    except (InputError, InvalidPlanError) as error:
        text = error.message + "".join(
            f", {label} {part}" for label, part in (("found", error.found), ("expected", error.expected)) if part
        )
        return [*edited, (error.path or "$", text)]
    return [*edited, *_wrong_figures(plan, timeline)]


def _wrong_figures(plan: Plan, timeline: Timeline) -> Iterator[Finding]:
    said = plan.predicted
    for key, what in (("step_time_ns", "step time"), ("span_ns", "span")):
        told, found = getattr(said, key), getattr(timeline, key)
        if told != found:
            yield f"$.predicted.{key}", f"predicts a {what} of {told} ns, its orders give {found} ns"
    if abs(said.bubble_ratio - timeline.bubble_ratio) > _RATIO_TOLERANCE:
        yield (
            "$.predicted.bubble_ratio",
            f"predicts a bubble ratio of {said.bubble_ratio!r}, its orders give {timeline.bubble_ratio!r}",
        )
    if [rank.rank for rank in said.ranks] != list(range(len(plan.ranks))):
        yield "$.predicted.ranks", f"not one prediction for each of its {len(plan.ranks)} ranks, in their order"
        return
    for rank, record in enumerate(said.ranks):
        for key, what, found in (
            ("busy_ns", "busy time", timeline.busy_ns[rank]),
            ("peak_memory_bytes", "peak memory", timeline.peak_memory_bytes[rank]),
            ("first_start_ns", "first start", timeline.first_start_ns(rank)),
            ("last_end_ns", "last end", timeline.last_end_ns(rank)),
        ):
            told, unit = getattr(record, key), "ns" if key.endswith("_ns") else "bytes"
            if told != found:
                path = f"$.predicted.ranks[{rank}].{key}"
                yield path, f"predicts a {what} of rank {rank} of {told} {unit}, its orders give {found} {unit}"


def compare_validity(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what does not hold in the new plan but did in the old one, and the other way round."""
    if old == new:
        return
    was, now = findings(old), findings(new)
    worse, better = [item for item in now if item not in was], [item for item in was if item not in now]
    if worse:
        yield invalid_plan(worse, thresholds)
    if better:
        message = f"what did not hold in the old plan is gone: {_words(better)}"
        yield thresholds.change("plan-repaired", better[0][0], message, len(was), len(now), details=_lines(better))


def invalid_plan(found: list[Finding], thresholds: Thresholds) -> Change:
    """Return the change that tells what does not hold in a plan."""
    message = f"the plan does not hold: {_words(found)}"
    return thresholds.change("plan-invalid", found[0][0], message, 0, len(found), details=_lines(found))


def _words(found: list[Finding]) -> str:
    return found[0][1] + (f", and {len(found) - 1} more" if len(found) > 1 else "")


def _lines(found: list[Finding]) -> tuple[str, ...]:
    return listed(f"{path}: {text}" for path, text in found) if len(found) > 1 else ()
