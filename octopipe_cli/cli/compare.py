"""``octopipe compare``: the classic schedules on the same inputs, and a plan beside them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from octopipe_cli.cli.inputs import ClusterFile, NumMicrobatches, ProfileFile, check_digests, check_stdin, load_inputs
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, Recompute, load_plan

if TYPE_CHECKING:
    from octopipe_cli.classic import ClassicRow

#: What is taken over from a classic schedule's row.
COLUMNS: Final = (
    "schedule",
    "partition",
    "stages_per_rank",
    "recompute",
    "step_time_ns",
    "span_ns",
    "bubble_ratio",
    "peak_memory_bytes",
    "fits",
)


def compare(
    profile: ProfileFile,
    cluster: ClusterFile,
    num_microbatches: NumMicrobatches,
    plan: Annotated[str | None, typer.Option(metavar="FILE", help="A plan for these inputs, as a row.")] = None,
    recompute: Annotated[Recompute, typer.Option(help="Activation recomputation of the classic schedules.")] = "auto",
    max_stages_per_rank: Annotated[
        int | None, typer.Option(min=1, metavar="V", help="At most so many stages a rank.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How the rows are printed.")] = Format.text,
) -> None:
    """List every classic schedule with equal and balanced partitions: times, bubbles, memory, speed-up of the plan.

    Each has its best number of stages a rank. Times are those of a whole step, in ms (ns in JSON); memory is the
    largest peak of any rank, in GiB (bytes in JSON). The speed-up is over the row's own step time.

    Example: octopipe compare llama3-8b.json a100-4.json -m 16 --plan llama3-8b.plan.json
    """
    check_stdin(PROFILE=profile, CLUSTER=cluster, plan=plan)
    model, machine = load_inputs(profile, cluster, num_microbatches)
    planned = load_plan(plan) if plan is not None else None
    if planned is not None:
        check_digests(planned, model, machine)
        _check_microbatches(planned, num_microbatches)
    from octopipe_cli.classic import classic_rows  # only now: it loads the compiler

    rows = classic_rows(
        model.value, machine.value, num_microbatches, recompute=recompute, max_stages_per_rank=max_stages_per_rank
    )
    listed = [_row(row) for row in rows]
    if planned is not None:
        listed.append(_plan_row(planned.value))
        for row in listed:
            row["speedup"] = round(row["step_time_ns"] / max(planned.value.predicted.step_time_ns, 1), 4)
    if format is Format.json:
        emit_json({"rows": listed})
    else:
        from octopipe_cli.render.console import glyphs_of, make_console, rendered
        from octopipe_cli.render.tables import compare_table

        console = make_console()
        emit(rendered(console, compare_table(listed, console.width, glyphs_of(console))))


def _row(row: ClassicRow) -> dict[str, Any]:
    return {**{key: getattr(row, key) for key in COLUMNS}, "speedup": None}


def _plan_row(plan: Plan) -> dict[str, Any]:
    """Return the plan as a row like those of the classic schedules."""
    held = Counter(stage.rank for stage in plan.stages)
    peaks = [rank.peak_memory_bytes for rank in plan.predicted.ranks]
    limits = [rank.memory_limit_bytes for rank in plan.ranks]
    return {
        "schedule": "plan",
        "partition": "searched",
        "stages_per_rank": max(held.values()),
        "recompute": any(stage.recompute for stage in plan.stages),
        "step_time_ns": plan.predicted.step_time_ns,
        "span_ns": plan.predicted.span_ns,
        "bubble_ratio": plan.predicted.bubble_ratio,
        "peak_memory_bytes": max(peaks, default=0),
        "fits": all(limit is None or peak <= limit for peak, limit in zip(peaks, limits, strict=False)),
        "speedup": None,
    }


def _check_microbatches(plan: Loaded[Plan], num_microbatches: int) -> None:
    planned = plan.value.request.num_microbatches
    if planned != num_microbatches:
        raise InputError(
            "the plan was made for another number of micro-batches",
            file=plan.file,
            path="$.request.num_microbatches",
            found=str(planned),
            expected=str(num_microbatches),
            remedy=f"compare with -m {planned}, or plan again",
        )
