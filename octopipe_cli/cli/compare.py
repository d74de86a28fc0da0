"""``octopipe compare``: the classic schedules on the same inputs, and a plan beside them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from octopipe_cli.cli.inputs import (
    ClusterFile,
    NumMicrobatches,
    ProfileFile,
    check_digests,
    check_microbatches,
    check_stdin,
    load_inputs,
)
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.errors import InputError
from octopipe_cli.plan import Plan, Recompute, load_plan
from octopipe_cli.replay import needs_inputs, replay
from octopipe_cli.simulate import Timeline

if TYPE_CHECKING:
    from octopipe_cli.classic.layout import PricedLayout

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
    plan: Annotated[str | None, typer.Option(metavar="PLAN", help="A plan for these inputs, as a row.")] = None,
    recompute: Annotated[Recompute, typer.Option(help="Activation recomputation of the classic schedules.")] = "auto",
    max_stages_per_rank: Annotated[
        int | None, typer.Option(min=1, metavar="V", help="At most so many stages a rank.")
    ] = None,
    layout: Annotated[
        list[str] | None,
        typer.Option(metavar="STRING", help="A layout string of Megatron-LM's, as a row. May be repeated."),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default=False,
            help="Micro-batches of a group where a layout is interleaved; by default as many as ranks.",
        ),
    ] = None,
    format: Annotated[Format, typer.Option(help="How the rows are printed.")] = Format.text,
) -> None:
    """List the classic schedules on the same inputs, a plan and layouts written by hand beside them.

    Each stands there with an equal-count and a balanced partition, and its best number of stages a rank. Times are
    those of a whole step, in ms (JSON: ns); memory is the largest peak of any rank, in GiB (JSON: of each rank, in
    bytes). The speed-up is the row's step time over the plan's. Layouts run in Megatron-LM's order: 1F1B, interleaved
    with more than a stage a rank.

    Example: octopipe compare llama3-8b.json a100-4.json -m 16 --plan llama3-8b.plan.json
    """
    check_stdin(PROFILE=profile, CLUSTER=cluster, plan=plan)
    model, machine = load_inputs(profile, cluster, num_microbatches)
    planned = None if plan is None else load_plan(plan)
    if planned is not None:
        check_digests(planned, model, machine)
        check_microbatches(planned, num_microbatches)
        inputs = (model.value, machine.value) if needs_inputs(planned.value) else None
        timeline = replay(planned.value, planned.file, inputs)
    if group_size is not None and not layout:
        raise InputError("--group-size is for layouts", remedy="give a layout with --layout, or leave it out")
    from octopipe_cli.classic import classic_rows  # only now: it loads the compiler
    from octopipe_cli.classic.layout import price_layout

    priced = [
        price_layout(model.value, machine.value, num_microbatches, text, group_size=group_size, recompute=recompute)
        for text in layout or []
    ]

    rows = classic_rows(
        model.value, machine.value, num_microbatches, recompute=recompute, max_stages_per_rank=max_stages_per_rank
    )
    listed = [{**{key: getattr(row, key) for key in COLUMNS}, "speedup": None} for row in rows]
    listed += [_layout_row(text, found) for text, found in zip(layout or [], priced, strict=True)]
    if planned is not None:
        listed.append(_plan_row(planned.value, timeline))
        for row in listed:
            row["speedup"] = round(row["step_time_ns"] / max(timeline.step_time_ns, 1), 4)
    if format is Format.json:
        emit_json({"rows": listed})
    else:
        from octopipe_cli.render.console import glyphs_of, make_console, rendered
        from octopipe_cli.render.tables import compare_table

        console = make_console()
        emit(rendered(console, compare_table(listed, glyphs_of(console), console.width)))


def _plan_row(plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """Return the plan as a row like those of the classic schedules."""
    return {
        "schedule": "plan",
        "partition": "searched",
        "stages_per_rank": max(Counter(stage.rank for stage in plan.stages).values()),
        "recompute": any(stage.recompute for stage in plan.stages),
        **{key: getattr(timeline, key) for key in COLUMNS[4:]},
        "speedup": None,
    }


def _layout_row(text: str, found: PricedLayout) -> dict[str, Any]:
    """Return a layout as a row like those of the classic schedules, and what it is."""
    return {
        "schedule": "layout",
        "partition": "layout",
        "stages_per_rank": found.stages_per_rank,
        "recompute": found.recompute,
        **{key: getattr(found.timeline, key) for key in COLUMNS[4:]},
        "speedup": None,
        "layout": text,
        "order": found.order,
        "group_size": found.group_size,
    }
