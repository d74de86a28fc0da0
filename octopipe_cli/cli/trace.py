"""``octopipe profile import trace``: layer times from traces of a pipeline step."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import check_not_an_input, warn
from octopipe_cli.cli.stage_times import (
    BaseOption,
    HardwareOption,
    NameOption,
    PlanOption,
    StageLayers,
    finish,
    layout_of,
)


def import_trace(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACE...", help="Chrome traces of torch.profiler, one a rank; .gz too.")
    ],
    plan: PlanOption = None,
    profile: BaseOption = None,
    stage_layers: StageLayers = None,
    hardware: HardwareOption = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
    name: NameOption = None,
) -> None:
    """Make a profile from traces of pipeline steps: the times of layers, from those of stages.

    Traces are those of PyTorch's pipelining runtime, whose records are named PP:0F3, PP:2I0, PP:2W0. A stage's time is
    the median over micro-batches, steps and replicas. Times of layer kinds follow by least squares over the stages,
    none below zero. The table on stderr has every stage, and the residual: the root mean square of the relative errors.

    Example: octopipe profile import trace rank0.json rank1.json --plan model.plan.json --profile model.json
    """
    from octopipe_cli.formats import check_writable
    from octopipe_cli.profiling.trace import read_timings

    check_stdin(plan=plan, profile=profile)
    check_writable(output)
    inputs = {f"trace {number}": file for number, file in enumerate(traces, 1)}
    inputs |= {key: file for key, file in (("plan", plan), ("profile", profile)) if file is not None}
    check_not_an_input(output, inputs)
    layout = layout_of(plan, profile, stage_layers, hardware)
    timings = read_timings(traces)
    for warning in timings.warnings:
        warn(warning)
    source = {"format": "trace", "source": [os.path.basename(file) for file in traces]}
    files = ", ".join(traces[:3]) + (" ..." if len(traces) > 3 else "")
    finish(layout, timings.observed, files, source, output, name)
