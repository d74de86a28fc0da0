"""``octopipe run``: a plan executed by PyTorch's pipelining runtime. (`octopipe_cli.cli.run` is the command line.)"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from octopipe_cli.cli.output import Format
from octopipe_cli.cli.replayed import refuse_lengths
from octopipe_cli.errors import InputError

REAL = "Real layers"


class RunDevice(str, Enum):
    """What ranks run on."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class RunDtype(str, Enum):
    """Number formats of real layers."""

    fp32 = "fp32"
    fp64 = "fp64"
    bf16 = "bf16"


def run(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Plan file; - is standard input.")],
    timed: Annotated[
        bool,
        typer.Option("--timed", help="Layers that compute nothing and take the plan's times; links take theirs."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="The layers of a Hugging Face config.json, or of one that ships, at random weights.",
            rich_help_panel=REAL,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare loss and every gradient with a run in one process.", rich_help_panel=REAL
        ),
    ] = False,
    sequence_length: Annotated[
        int, typer.Option(min=2, max=10**6, metavar="N", help="Positions of a sequence.", rich_help_panel=REAL)
    ] = 128,
    micro_batch_size: Annotated[
        int, typer.Option(min=1, max=10**6, metavar="B", help="Sequences of a micro-batch.", rich_help_panel=REAL)
    ] = 1,
    dtype: Annotated[
        RunDtype, typer.Option(help="The number format of weights and activations.", rich_help_panel=REAL)
    ] = RunDtype.fp32,
    steps: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="Training steps; the fastest is shown.")
    ] = 4,
    scale: Annotated[
        float, typer.Option(min=1e-6, max=1e6, metavar="X", help="With --timed: stretch all times by this factor.")
    ] = 1.0,
    timeout: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Stop when no rank has ended an action for so long.")
    ] = 60.0,
    device: Annotated[
        RunDevice, typer.Option(help="auto: cuda where every rank has a GPU of its own, else cpu.")
    ] = RunDevice.auto,
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the measured step as a trace for Perfetto.", show_default=False),
    ] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="text: chart and figures; json: every action's times, in ns.")
    ] = Format.text,
    no_gantt: Annotated[bool, typer.Option("--no-gantt", help="Leave out the chart.")] = False,
) -> None:
    """Run a plan with PyTorch: its ranks as processes of this machine, or those that torchrun has started.

    With --timed the measured step is set beside the predicted one; nothing is calibrated out. With --model real layers
    are cut and placed by the plan. Needs octopipe[torch]. Exit 1: a check failed, or the run hung or failed.

    Example: octopipe run llama3-8b.plan.json --timed --scale 2 --trace step.json
    """
    from octopipe_cli.cli import running
    from octopipe_cli.cli.output import check_not_an_input
    from octopipe_cli.formats import check_writable
    from octopipe_cli.plan import load_plan

    if timed == (model is not None):
        raise InputError("what is to be run?", expected="--timed or --model CONFIG, one of both")
    if check and model is None:
        raise InputError("--check has nothing to compare", remedy="give it real layers: --model CONFIG")
    if scale != 1 and not timed:
        raise InputError("--scale stretches the times of --timed", remedy="leave out --scale")
    if trace is not None:
        check_not_an_input(trace, {"plan": plan})
        check_writable(trace)
    loaded = load_plan(plan)
    refuse_lengths(loaded, "PyTorch's runtime takes tensors of one shape")
    asked = running.Asked(
        steps=steps,
        scale=scale,
        timeout_s=timeout,
        device=device.value,
        check=check,
        sequence_length=sequence_length,
        micro_batch_size=micro_batch_size,
        dtype=dtype.value,
    )
    job = running.timed_job(loaded, asked) if model is None else running.model_job(loaded, asked, model)
    running.run_and_report(job, asked, output_format, chart=not no_gantt, trace=trace, timed=timed)
