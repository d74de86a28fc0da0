"""``octopipe profile import trace``: layer times from traces of a pipeline step."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import check_not_an_input, note, save, warn
from octopipe_cli.errors import InputError

if TYPE_CHECKING:
    from octopipe_cli.profiling.stage_fit import Row

LAYERS = "Which stage holds which layers"


def import_trace(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Chrome traces of torch.profiler, one a rank; .gz too.")
    ],
    plan: Annotated[
        str | None,
        typer.Option(metavar="PLAN", help="The plan that ran.", rich_help_panel=LAYERS, show_default=False),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="The model's profile: sizes, rules and other columns are kept; its times decide where the traces leave"
            " several answers.",
            rich_help_panel=LAYERS,
            show_default=False,
        ),
    ] = None,
    stage_layers: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Without a plan: how many of the profile's layers each stage has: 5,4,4,3.",
            rich_help_panel=LAYERS,
            show_default=False,
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the times were taken on; by default the plan's.", show_default=False),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the profile; by default the model's.", show_default=False),
    ] = None,
) -> None:
    """Make a profile from traces of pipeline steps: the times of layers, from those of stages.

    Traces are those of PyTorch's pipelining runtime, whose records are named PP:0F3, PP:2I0, PP:2W0. A stage's time is
    the median over micro-batches, steps and replicas. Times of layer kinds follow by least squares over the stages,
    none below zero. The table on stderr has every stage, and the residual: the root mean square of the relative errors.

    Example: octopipe profile import trace rank0.json rank1.json --plan model.plan.json --profile model.json
    """
    from octopipe_cli.formats import check_writable, document_text
    from octopipe_cli.plan import load_plan
    from octopipe_cli.profile import load_profile
    from octopipe_cli.profiling.trace import read_timings
    from octopipe_cli.profiling.trace_profile import (
        check_same_layers,
        check_stages,
        hardware_of_plan,
        import_stage_times,
        stages_of_counts,
        stages_of_plan,
    )

    check_stdin(plan=plan, profile=profile)
    check_writable(output)
    inputs = {f"trace {number}": file for number, file in enumerate(traces, 1)}
    inputs |= {key: file for key, file in (("plan", plan), ("profile", profile)) if file is not None}
    check_not_an_input(output, inputs)
    made = None if plan is None else load_plan(plan)
    base = None if profile is None else load_profile(profile)
    if made is not None and stage_layers is None:
        if base is not None:
            check_same_layers(made, base)
        stages = stages_of_plan(made)
        column = hardware or hardware_of_plan(made)
    elif made is None and base is not None and stage_layers is not None and hardware is not None:
        stages, column = stages_of_counts(base, _counts(stage_layers)), hardware
    else:
        raise InputError(
            "which stage holds which layers?",
            expected="--plan, or --profile with --stage-layers and --hardware",
            remedy="give the plan that ran",
        )
    timings = read_timings(traces)
    check_stages(stages, timings.observed, ", ".join(traces[:3]) + (" ..." if len(traces) > 3 else ""))
    source = {"method": "imported", "format": "trace", "source": [os.path.basename(file) for file in traces]}
    runs = {f"{stage}{action}": seen.runs for (stage, action), seen in timings.observed.items()}
    found = import_stage_times(
        stages,
        timings.observed,
        column,
        {**source, "runs": runs, **({} if made is None else {"plan_digest": made.digest})},
        base=base,
        roles=None if made is None else made.value.kinds,
        name=name or (base.value.name if base is not None else made.value.inputs.profile.name if made else "model"),
    )
    for warning in (*timings.warnings, *found.warnings):
        warn(warning)
    _report(found.fit.rows, found.fit.residual)
    save(output, document_text(found.document))


def _counts(text: str) -> list[int]:
    """Return a list of whole numbers above zero."""
    if not re.fullmatch(r"[1-9]\d{0,4}(,[1-9]\d{0,4})*", text):
        raise InputError("not a list of layers a stage", found=text, expected="whole numbers above zero: 5,4,4,3")
    return [int(part) for part in text.split(",")]


def _report(rows: Sequence[Row], residual: float) -> None:
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.profiling import fit_table

    console = make_console(stderr=True)
    table = [
        {"of": row.stage, "time": row.action, "measured_ms": row.measured_ms, "fitted_ms": row.fitted_ms}
        for row in rows
    ]
    note(rendered(console, fit_table(table, "stage", glyphs_of(console), console.width)).rstrip("\n"))
    note(f"residual: {residual:.1%}")
