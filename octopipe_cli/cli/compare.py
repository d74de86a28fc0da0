"""``octopipe compare``: the classic schedules on the same inputs, and a plan beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
from octopipe_cli.cli.lengths import asked_lengths
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded
from octopipe_cli.length_sets import reported, set_times
from octopipe_cli.pipeline import assignment_of
from octopipe_cli.plan import Plan, Recompute, load_plan
from octopipe_cli.profile import Profile
from octopipe_cli.replay import needs_inputs, replay
from octopipe_cli.simulate import Timeline

if TYPE_CHECKING:
    from octopipe_cli.classic import ClassicRow
    from octopipe_cli.classic.layout import PricedLayout
    from octopipe_cli.render.versus import Case

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
    plan: Annotated[
        list[str] | None, typer.Option(metavar="PLAN", help="A plan for these inputs, as a row. May be repeated.")
    ] = None,
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
    lengths: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Lengths of micro-batches, as `octopipe plan` takes them: the mean, the 95th percentile and the "
            "largest step time over the odd-numbered steps of the file (or its only one), orders as they stand.",
        ),
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="The file of lengths counts tokens.")] = False,
    gantt: Annotated[
        bool,
        typer.Option(
            "--gantt",
            help="Draw the plan below the fastest classic schedule that fits, on one time axis; several plans below "
            "one another; layouts, where given, in the schedule's place.",
        ),
    ] = False,
    format: Annotated[Format, typer.Option(help="How the rows are printed.")] = Format.text,
) -> None:
    """List the classic schedules on the same inputs, a plan and layouts written by hand beside them.

    Each stands there with an equal-count and a balanced partition, and its best number of stages a rank. Times are
    those of a whole step, in ms (JSON: ns); memory is the largest peak of any rank, in GiB (JSON: of each rank, in
    bytes). The speed-up is the row's step time over the plan's. Layouts run in Megatron-LM's order: 1F1B, interleaved
    with more than a stage a rank.

    Example: octopipe compare llama3-8b.json a100-4.json -m 16 --plan llama3-8b.plan.json --gantt
    """
    plans = plan or []
    names = {f"--plan {number}" if len(plans) > 1 else "--plan": name for number, name in enumerate(plans, 1)}
    check_stdin(PROFILE=profile, CLUSTER=cluster, **names, **{"--lengths": lengths})
    model, machine = load_inputs(profile, cluster, num_microbatches)
    planned = [_planned(name, model, machine, num_microbatches) for name in plans]
    sets = asked_lengths(lengths, (model, machine, num_microbatches), tokens=tokens)
    if gantt and (not plans or format is Format.json):
        raise InputError("--gantt draws plans as text", remedy="name one with --plan, and leave out --format json")
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
    listed += [_plan_row(loaded, timeline, len(planned) > 1) for loaded, timeline in planned]
    if planned:
        fastest = min(timeline.step_time_ns for _, timeline in planned)
        for row in listed:
            row["speedup"] = round(row["step_time_ns"] / max(fastest, 1), 4)
    if sets is not None:
        cases = [(row.assignment, row.timeline) for row in rows]
        cases += [(found.assignment, found.timeline) for found in priced]
        cases += [(assignment_of(loaded.value), timeline) for loaded, timeline in planned]
        over = sets.sets if len(sets.sets) == 1 else reported(sets.sets)
        for row, (assignment, simulated) in zip(listed, cases, strict=True):
            p2p = simulated.pipeline.p2p
            times = set_times(model.value, machine.value, assignment, simulated.orders, over, p2p)
            row |= {"mean_ns": times.mean_ns, "p95_ns": times.p95_ns, "worst_ns": times.worst_ns}
            row["steps_too_large"] = times.too_large
    if format is Format.json:
        emit_json({"rows": listed} if sets is None else {"steps": len(over), "rows": listed})
    else:
        from octopipe_cli.render.console import glyphs_of, make_console, rendered
        from octopipe_cli.render.lengths import lengths_table
        from octopipe_cli.render.tables import compare_table
        from octopipe_cli.render.versus import versus

        console = make_console()
        glyphs = glyphs_of(console)
        table = compare_table(listed, glyphs, console.width)
        texts = [table if sets is None else lengths_table(listed, len(over), glyphs, console.width)]
        if gantt:
            texts.append(versus(_cases(rows, layout or [], priced, planned), console.width, glyphs))
        emit(rendered(console, *texts))


def _planned(
    name: str, model: Loaded[Profile], machine: Loaded[Cluster], num_microbatches: int
) -> tuple[Loaded[Plan], Timeline]:
    """Return a plan for the inputs, and its timeline."""
    loaded = load_plan(name)
    check_digests(loaded, model, machine)
    check_microbatches(loaded, num_microbatches)
    inputs = (model.value, machine.value) if needs_inputs(loaded.value) else None
    return loaded, replay(loaded.value, loaded.file, inputs)


def _plan_row(loaded: Loaded[Plan], timeline: Timeline, several: bool) -> dict[str, Any]:
    """Return the plan as a row like those of the classic schedules; its file's name beside it where there are more."""
    plan = loaded.value
    return {
        "schedule": "plan",
        **({"plan": loaded.file} if several else {}),
        "partition": "searched",
        "stages_per_rank": max(Counter(stage.rank for stage in plan.stages).values()),
        "recompute": any(stage.recompute for stage in plan.stages),
        **{key: getattr(timeline, key) for key in COLUMNS[4:]},
        "speedup": None,
    }


def _cases(
    rows: Sequence[ClassicRow],
    layouts: Sequence[str],
    priced: Sequence[PricedLayout],
    planned: Sequence[tuple[Loaded[Plan], Timeline]],
) -> list[Case]:
    """Return what is drawn: the layouts or, for a single plan, the fastest schedule that fits; then the plans."""
    from octopipe_cli.render.versus import Case

    cases = [Case(f"layout {text}", found.timeline) for text, found in zip(layouts, priced, strict=True)]
    if not cases and len(planned) == 1:
        best = min(rows, key=lambda row: (not row.fits, row.step_time_ns))
        stages = "1 stage" if best.stages_per_rank == 1 else f"{best.stages_per_rank} stages"
        fits = "" if best.fits else ", does not fit"
        cases.append(Case(f"{best.schedule}, {best.partition} partition, {stages} a rank{fits}", best.timeline))
    return cases + [Case(loaded.file, timeline) for loaded, timeline in planned]


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
