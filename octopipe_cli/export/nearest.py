"""The nearest plan that an engine can run, and what it costs.

Where only the orders stand in the way, it is the same stages on the same ranks with orders of the engine's: what they
cost follows from the plan alone. Else it is for the search to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from octopipe_cli.engines import engine_p2p
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, legal_group_size, one_f_one_b
from octopipe_cli.export.torch_orders import with_whole_backward
from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Engine, Orders, Plan
from octopipe_cli.simulate import Timeline, simulate
from octopipe_cli.words import gibibyte_text, percent_text, time_text

#: What another order mends.
_MENDED_BY_ORDERS: Final = {"fused", "group-size", "order", "p2p", "first-whole", "recomputed-whole", "last-forwards"}

#: So many group sizes are tried.
_MOST_SIZES: Final = 16


def nearest(plan: Plan, engine: Engine, rules: set[str], timeline: Timeline) -> str:
    """Return the nearest plan that an engine runs, in words: its orders and their cost, or the command that finds one.

    Parameters
    ----------
    plan, timeline
        The plan, which breaks these rules of the engine, and its timeline.
    """
    if "kinds" in rules and engine == "megatron-hybrid":
        return "name the symbols with --symbol"
    if "layer-order" in rules:
        return "no plan of this model's runs there: give its kinds of layers their roles in the profile, and plan again"
    if "kinds" in rules and engine == "megatron":
        engine = "megatron-hybrid"
    command = f"octopipe plan PROFILE CLUSTER -m {plan.request.num_microbatches} --engine {engine}"
    if rules <= _MENDED_BY_ORDERS:
        runs = [(simulate(pipeline, orders), name) for pipeline, orders, name in _candidates(engine, timeline)]
        if runs:
            best, name = min(runs, key=lambda run: (not run[0].fits, run[0].step_time_ns))
            return f"the same stages with {name} take {_cost(best, timeline)}; `{command}` searches for better stages"
    return f"`{command}` finds the best plan that {engine} runs"


def _candidates(engine: Engine, timeline: Timeline) -> Iterator[tuple[Pipeline, Orders, str]]:
    """Yield the pipeline as an engine runs it, orders of the engine's on it, and what they are."""
    pipeline = timeline.pipeline
    if engine in ("torch", "torchtitan"):
        stages = [0, *(number for number, stage in enumerate(pipeline.stages) if stage.recompute)]
        yield pipeline, with_whole_backward(timeline.orders, set(stages)), "B where the engine cannot split"
        return
    ranks, count = pipeline.num_ranks, pipeline.num_microbatches
    per_rank = pipeline.num_stages // ranks
    mine = replace(pipeline, p2p=engine_p2p(engine, per_rank, pipeline.p2p))
    if per_rank == 1:
        yield mine, one_f_one_b(ranks, count), "1F1B"
    elif ranks > 1:
        sizes = [size for size in range(ranks, count + 1) if legal_group_size(size, ranks, count)]
        for size in sizes[:_MOST_SIZES]:
            yield mine, interleaved_1f1b(ranks, count, per_rank, size), f"interleaved 1F1B in groups of {size}"


def _cost(run: Timeline, plan: Timeline) -> str:
    more = run.step_time_ns - plan.step_time_ns
    text = f"{time_text(run.step_time_ns)} a step, {percent_text(abs(more), plan.step_time_ns)} % "
    text += "more" if more >= 0 else "less"
    for rank, (peak, limit) in enumerate(zip(run.peak_memory_bytes, run.pipeline.limit_bytes, strict=True)):
        if limit is not None and peak > limit:
            return f"{text}, but do not fit: rank {rank} needs {gibibyte_text(peak)} GiB of {gibibyte_text(limit)}"
    return text
