"""``octopipe profile import megatron``: layer times from the timers that Megatron-LM logs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import check_not_an_input
from octopipe_cli.cli.stage_times import (
    BaseOption,
    HardwareOption,
    NameOption,
    PlanOption,
    StageLayers,
    finish,
    layout_of,
)
from octopipe_cli.errors import InputError
from octopipe_cli.plan import MAX_MICROBATCHES


def import_megatron(
    log: Annotated[str, typer.Argument(metavar="LOG", help="What Megatron-LM printed; - is standard input.")],
    plan: PlanOption = None,
    profile: BaseOption = None,
    stage_layers: StageLayers = None,
    num_microbatches: Annotated[
        int | None,
        typer.Option(
            "-m",
            "--num-microbatches",
            min=1,
            max=MAX_MICROBATCHES,
            metavar="N",
            help="Micro-batches of an iteration; by default the plan's.",
            show_default=False,
        ),
    ] = None,
    hardware: HardwareOption = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
    name: NameOption = None,
) -> None:
    """Make a profile from Megatron-LM's timers: the times of layers, from those of pipeline ranks.

    The log is that of a run with --timing-log-level 2 --timing-log-option all, which prints forward-compute and
    backward-compute for every rank. They are sums over micro-batches and model chunks; ranks are ordered as Megatron
    does by default, pipeline outermost. Times of layer kinds follow by least squares over the ranks, none below zero.
    Only B is known: --profile says how it divides into I and W.

    Example: octopipe profile import megatron run.log --plan model.plan.json --profile model.json
    """
    from octopipe_cli.formats import check_writable, shown_file
    from octopipe_cli.profiling.megatron_timers import read_timers

    check_stdin(LOG=log, plan=plan, profile=profile)
    check_writable(output)
    inputs = {"log": log, **{key: file for key, file in (("plan", plan), ("profile", profile)) if file is not None}}
    check_not_an_input(output, inputs)
    layout = layout_of(plan, profile, stage_layers, hardware, by_rank=True)
    count = num_microbatches
    if count is None:
        if layout.plan is None:
            raise InputError("how many micro-batches had an iteration?", remedy="say so with --num-microbatches")
        count = layout.plan.value.request.num_microbatches
    observed = read_timers(log, len(layout.stages), count)
    source = {"format": "megatron", "source": os.path.basename(shown_file(log)), "num_microbatches": count}
    finish(layout, observed, shown_file(log), source, output, name, first="rank")
