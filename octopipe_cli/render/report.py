"""The report under the chart, and the same as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from rich.text import Text

from octopipe_cli.plan import Plan, PlanStage
from octopipe_cli.render.console import LEAST_WIDTH
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined, wrapped
from octopipe_cli.simulate import Timeline
from octopipe_cli.throughput import throughput_document, throughput_text
from octopipe_cli.words import (
    decimal_text,
    gibibyte_text,
    kinds_text,
    percent_text,
    stage_kinds,
    time_column,
    time_text,
    visible,
    with_memory,
)

LABEL: Final = 12
#: Columns from which the table of ranks has the bubbles too.
WIDE: Final = 80
#: Stages up to which each has a line of its own.
MANY_STAGES: Final = 64


def report(plan: Plan, timeline: Timeline, width: int = 80, glyphs: Glyphs = BLOCKS) -> Text:
    """Return the report of a plan: its times against bound and baseline, its ranks, stages and search."""
    width = max(width, LEAST_WIDTH)
    lines: list[Text] = []
    for label, text in _facts(plan, timeline):
        lines += wrapped(label.ljust(LABEL), glyphs.name(glyphs.plain(text)), width)
    lines.append(Text())
    lines += _rank_table(timeline, glyphs, width)
    lines.append(Text())
    lines += _stage_table(plan, timeline, glyphs, width)
    return joined(lines)


def _facts(plan: Plan, timeline: Timeline) -> Iterator[tuple[str, str]]:
    """Yield (label, text) of what is said in a line."""
    request, objective = plan.request, plan.request.objective
    by_span = objective == "span" and plan.bound.span_ns is not None
    yield "step time", time_text(timeline.step_time_ns) + ("" if by_span else _gap_text(plan, timeline))
    yield "span", time_text(timeline.span_ns) + (_gap_text(plan, timeline) if by_span else "")
    if plan.bound.plan_ns is not None and not by_span:
        text = f"{time_text(plan.bound.plan_ns)} for this partition and placement"
        met = timeline.step_time_ns == plan.bound.plan_ns
        yield "bound", text + (": met, no order is faster" if met else "")
    rates = throughput_text(plan, timeline.step_time_ns)
    if rates is not None:
        yield "throughput", rates[0]
        if rates[1] is not None:
            yield "MFU", rates[1]
    yield "bubbles", _bubble_text(timeline)
    yield "phases", _phase_text(timeline)
    if with_memory(timeline):
        yield "memory", _memory_text(timeline)
    if plan.baseline is not None:
        base = plan.baseline
        partition = f", {base.partition} partition" if base.partition else ""
        speedup = decimal_text(base.step_time_ns, max(timeline.step_time_ns, 1), 3)
        yield (
            "baseline",
            f"{base.schedule}{partition}: {time_text(base.step_time_ns)}; the plan is {speedup} times as fast",
        )
    if plan.rank_order is not None:
        yield "ranks", f"along the model in the order {', '.join(map(str, plan.rank_order))}"
    if plan.request.lengths is not None:
        yield "lengths", _lengths_text(plan)
    if plan.robust is not None:
        over = plan.robust
        figures = f"mean {time_text(over.mean_ns)}, 95th percentile {time_text(over.p95_ns)}"
        yield "robust", f"{figures}, worst {time_text(over.worst_ns)} over {over.count} steps' lengths"
    if plan.search.engines:
        reached = (f"{engine} {time_text(value)}" for engine, value in plan.search.engines.items())
        yield "engines", f"at a glance, with --engine: {', '.join(reached)}"
    yield (
        "search",
        (
            f"engine {request.engine}, effort {request.effort}, seed {request.seed}; "
            f"stopped by {plan.search.stopped_by}, {'' if plan.search.reproducible else 'not '}reproducible"
        ),
    )


def _lengths_text(plan: Plan) -> str:
    """Return how far the micro-batches differ, and in which order they run."""
    lists = plan.request.lengths or {}
    parts = [f"{visible(name)} {min(values):.3g} to {max(values):.3g}" for name, values in lists.items()]
    order = plan.microbatch_order
    text = f"{', '.join(parts)} of the profile's"
    return text if order is None else f"{text}; micro-batches in the order {', '.join(map(str, order))}"


def _gap_text(plan: Plan, timeline: Timeline) -> str:
    """Return how far the plan is above the certified bound of its objective."""
    by_span = plan.request.objective == "span" and plan.bound.span_ns is not None
    bound = plan.bound.span_ns if by_span else plan.bound.step_time_ns
    assert bound is not None
    reached = timeline.span_ns if by_span else timeline.step_time_ns
    if reached <= bound:
        return f", optimal: equals the bound ({plan.bound.scope})" if reached == bound else ""
    if bound == 0:
        return ", no bound"
    said = plan.bound.scope if plan.bound.argument is None else f"{plan.bound.scope}; by {plan.bound.argument}"
    return f", {_gap_percent(reached, bound)} % above the bound of {time_text(bound)} ({said})"


def _gap_percent(reached: int, bound: int) -> str:
    """Return the gap in per cent, with as many decimals as show that it is not nothing (at most 4)."""
    for digits in (1, 2, 3):
        text = percent_text(reached - bound, bound, digits)
        if float(text):
            return text
    return percent_text(reached - bound, bound, 4)


def _bubble_text(timeline: Timeline) -> str:
    whole = timeline.pipeline.num_ranks * timeline.step_time_ns
    idle = whole - sum(timeline.busy_ns)
    split = [sum(parts) for parts in zip(*map(timeline.bubbles, range(timeline.pipeline.num_ranks)), strict=True)]
    names = ("before the first action", "between", "after the last")
    parts = [f"{percent_text(part, whole)} % {name}" for part, name in zip(split, names, strict=True)]
    step = sum(timeline.pipeline.step_ns)
    if step:
        parts.append(f"{percent_text(step, whole)} % optimizer step")
    return f"{percent_text(idle, whole)} % of the ranks' time: {', '.join(parts)}"


def _phase_text(timeline: Timeline) -> str:
    """Return how long ranks wait to begin, how long all are at work, how long they wait for the last."""
    acting = [rank for rank, order in enumerate(timeline.orders) if order]
    begun = max((timeline.first_start_ns(rank) for rank in acting), default=0)
    done = min((timeline.last_end_ns(rank) for rank in acting), default=0)
    if done <= begun:
        return "no instant at which every rank is between its first and its last action"
    rest = timeline.step_time_ns - done
    return f"{time_text(begun)} warm-up, {time_text(done - begun)} with all ranks at work, {time_text(rest)} cool-down"


def _memory_text(timeline: Timeline) -> str:
    """Return which rank is the fullest: least headroom where there are limits, else the highest peak."""
    peaks, limits = timeline.peak_memory_bytes, timeline.pipeline.limit_bytes
    limited = [(limit - peaks[rank], rank) for rank, limit in enumerate(limits) if limit is not None]
    if not limited:
        rank = max(range(len(peaks)), key=lambda r: (peaks[r], -r))
        return f"rank {rank} is the fullest: {gibibyte_text(peaks[rank])} GiB, no limit"
    free, rank = min(limited)
    limit = limits[rank]
    assert limit is not None
    text = f"rank {rank} is the fullest: {gibibyte_text(peaks[rank])} of {gibibyte_text(limit)} GiB"
    return f"{text}, {gibibyte_text(-free, 2)} GiB TOO MUCH" if free < 0 else f"{text}, {gibibyte_text(free)} free"


def _rank_table(timeline: Timeline, glyphs: Glyphs, width: int) -> list[Text]:
    pipeline, step = timeline.pipeline, timeline.step_time_ns
    ranks = range(pipeline.num_ranks)
    unit, busy = time_column(timeline.busy_ns)
    heads = ["rank", f"busy {glyphs.plain(unit)}", "%"]
    rows = [[str(r), busy[r], percent_text(timeline.busy_ns[r], step)] for r in ranks]
    if width >= WIDE:  # below that the chart's own figures must do
        heads += ["before", "between", "after"]
        for r in ranks:
            rows[r] += [percent_text(part, step) for part in timeline.bubbles(r)]
    if any(pipeline.step_ns):
        heads.append("step")
        for r in ranks:
            rows[r].append(percent_text(pipeline.step_ns[r], step))
    if with_memory(timeline):
        heads += ["state GiB", "peak", "limit", "free"]
        for r in ranks:
            peak, limit = timeline.peak_memory_bytes[r], pipeline.limit_bytes[r]
            most = glyphs.infinity if limit is None else gibibyte_text(limit)
            free = "" if limit is None else gibibyte_text(limit - peak)
            rows[r] += [gibibyte_text(pipeline.state_bytes(r)), gibibyte_text(peak), most, free]
    return grid(heads, rows, "r" * len(heads), width)


def _stage_table(plan: Plan, timeline: Timeline, glyphs: Glyphs, width: int) -> list[Text]:
    """Return the stages, rank by rank: a line each, or a line a rank where there are very many."""
    if timeline.pipeline.num_stages > MANY_STAGES:
        return _short_stage_table(plan, timeline, width)
    load = _stage_load_ns(timeline)
    unit, loads = time_column(load)
    heads = ["rank", "stage", f"load {glyphs.plain(unit)}", "layers", "kinds"]
    rows = []
    for rank, stages in enumerate(timeline.pipeline.stages_of):
        for at, stage in enumerate(stages):
            held = plan.stages[stage]
            layers = _layers_text(held)
            kinds = glyphs.name(kinds_text(stage_kinds(held.kinds))) or "-"
            mark = " (recomputed)" if held.recompute else ""
            rows.append(["" if at else str(rank), str(stage), loads[stage], layers, kinds + mark])
    return grid(heads, rows, "rrrlw", width)


def _short_stage_table(plan: Plan, timeline: Timeline, width: int) -> list[Text]:
    rows = []
    for rank, stages in enumerate(timeline.pipeline.stages_of):
        marks = ["r" if plan.stages[stage].recompute else "" for stage in stages]
        parts = [f"{s}:{_layers_text(plan.stages[s])}{mark}" for s, mark in zip(stages, marks, strict=True)]
        rows.append([str(rank), "  ".join(parts)])
    note = " (r: recomputed)" if any(stage.recompute for stage in plan.stages) else ""
    return grid(["rank", f"stage:layers{note}"], rows, "rw", width)


def _layers_text(stage: PlanStage) -> str:
    first, stop = stage.layers
    return "none" if first == stop else str(first) if stop - first == 1 else f"{first}-{stop - 1}"


def _stage_load_ns(timeline: Timeline) -> list[int]:
    """Return the time each stage takes of its rank in a step."""
    load = [0] * timeline.pipeline.num_stages
    for actions in timeline.orders:
        for action in actions:
            load[action.stage] += timeline.pipeline.duration_ns(action)
    return load


def report_document(plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """Return the report as a document for machines: everything the chart and the report say, in ns and bytes."""
    pipeline = timeline.pipeline
    load = _stage_load_ns(timeline)
    ranks = []
    for rank, planned in enumerate(plan.ranks):
        before, between, after = timeline.bubbles(rank)
        peak, limit = timeline.peak_memory_bytes[rank], planned.memory_limit_bytes
        ranks.append(
            {
                "rank": rank,
                "hardware": planned.hardware,
                "node": planned.node,
                "stages": list(pipeline.stages_of[rank]),
                "busy_ns": timeline.busy_ns[rank],
                "bubbles_ns": {"before_first": before, "between": between, "after_last": after},
                "step_ns": planned.step_ns,
                "first_start_ns": timeline.first_start_ns(rank),
                "last_end_ns": timeline.last_end_ns(rank),
                "state_bytes": pipeline.state_bytes(rank),
                "peak_memory_bytes": peak,
                "memory_limit_bytes": limit,
                "headroom_bytes": None if limit is None else limit - peak,
            }
        )
    stages = [
        {
            "stage": number,
            "rank": stage.rank,
            "layers": list(stage.layers),
            "kinds": list(stage_kinds(stage.kinds)),
            "recompute": stage.recompute,
            "load_ns": load[number],
            "state_bytes": stage.bytes.state,
        }
        for number, stage in enumerate(plan.stages)
    ]
    base, bound = plan.baseline, plan.bound
    return {
        "profile": plan.inputs.profile.name,
        "cluster": plan.inputs.cluster.name,
        "created_by": plan.created_by,
        "engine": plan.request.engine,
        "objective": plan.request.objective,
        "num_microbatches": pipeline.num_microbatches,
        "num_ranks": pipeline.num_ranks,
        "num_stages": pipeline.num_stages,
        "step_time_ns": timeline.step_time_ns,
        "span_ns": timeline.span_ns,
        "bubble_ratio": timeline.bubble_ratio,
        "throughput": throughput_document(plan, timeline.step_time_ns),
        "fits": timeline.fits,
        "bound": {
            "step_time_ns": bound.step_time_ns,
            "span_ns": bound.span_ns,
            "plan_ns": bound.plan_ns,
            "gap": bound.gap,
            "scope": bound.scope,
            "argument": bound.argument,
        },
        "baseline": None
        if base is None
        else {
            "schedule": base.schedule,
            "partition": base.partition,
            "step_time_ns": base.step_time_ns,
            "speedup": base.speedup,
        },
        "robust": None if plan.robust is None else msgspec.to_builtins(plan.robust),
        "microbatch_order": plan.microbatch_order,
        "search": {
            "stopped_by": plan.search.stopped_by,
            "reproducible": plan.search.reproducible,
            "engines": plan.search.engines,
        },
        "ranks": ranks,
        "stages": stages,
    }
