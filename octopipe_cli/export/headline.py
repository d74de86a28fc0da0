"""What a picture says of a plan in words: its name, its size, its figures."""

from __future__ import annotations

from typing import Final, NamedTuple

from octopipe_cli.plan import Plan
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import decimal_text, gibibyte_text, percent_text, time_text, visible

#: Characters of a name from a file that a picture has room for.
NAME_LENGTH: Final = 60


class Figure(NamedTuple):
    """One figure: what it is, its value, what to hold it against."""

    label: str
    value: str
    note: str


def short(name: str, length: int = NAME_LENGTH) -> str:
    """Return a name from a file as it can be shown, cut to a length."""
    text = visible(name)
    return text if len(text) <= length else text[: length - 1] + "…"


def title(plan: Plan) -> str:
    """Return what the plan is of: the model's name and the cluster's."""
    return f"{short(plan.inputs.profile.name)} on {short(plan.inputs.cluster.name, 40)}"


def size(timeline: Timeline) -> str:
    """Return how large the pipeline is."""
    pipeline = timeline.pipeline
    counts = [(pipeline.num_ranks, "rank"), (pipeline.num_stages, "stage")]
    words = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts]
    number = pipeline.num_microbatches
    return ", ".join([*words, f"{number} micro-batch{'' if number == 1 else 'es'}"])


def figures(plan: Plan, timeline: Timeline) -> list[Figure]:
    """Return the plan's figures, the most important first."""
    reached, bound = timeline.step_time_ns, plan.bound.step_time_ns
    found = [Figure("step time", time_text(reached), f"span {time_text(timeline.span_ns)}")]
    if bound:
        said = "met: the plan is optimal" if reached <= bound else f"plan is {_gap(reached, bound)} % above"
        found.append(Figure("bound", time_text(bound), f"{said}; for {short(plan.bound.scope, 40)}"))
    whole = timeline.pipeline.num_ranks * reached
    found.append(Figure("bubbles", f"{percent_text(whole - sum(timeline.busy_ns), whole)} %", "of the ranks' time"))
    base = plan.baseline
    if base is not None and reached:
        partition = f", {short(base.partition, 20)}" if base.partition else ""
        note = f"{short(base.schedule, 30)}{partition}: {time_text(base.step_time_ns)}"
        found.append(Figure("speed-up", f"{decimal_text(base.step_time_ns, reached, 2)} x", note))
    if any(timeline.peak_memory_bytes):
        found.append(_fullest(timeline))
    return found


def _gap(reached: int, bound: int) -> str:
    """Return the gap in per cent, with as many decimals as show that it is not nothing (at most 4)."""
    for digits in (1, 2, 3):
        text = percent_text(reached - bound, bound, digits)
        if float(text):
            return text
    return percent_text(reached - bound, bound, 4)


def _fullest(timeline: Timeline) -> Figure:
    """Return the peak of the rank that is nearest to its limit; of the highest peak where none has a limit."""
    peaks, limits = timeline.peak_memory_bytes, timeline.pipeline.limit_bytes
    limited = [(limit - peaks[rank], rank) for rank, limit in enumerate(limits) if limit is not None]
    rank = min(limited)[1] if limited else max(range(len(peaks)), key=lambda r: (peaks[r], -r))
    limit = limits[rank]
    said = "no limit" if limit is None else f"limit {gibibyte_text(limit)} GiB"
    over = ", TOO MUCH" if limit is not None and peaks[rank] > limit else ""
    return Figure("peak memory", f"{gibibyte_text(peaks[rank])} GiB", f"rank {rank}, {said}{over}")
