"""``octopipe profile measure``: a profile from the layers themselves, run with PyTorch."""

from __future__ import annotations

import os
from enum import Enum
from typing import Annotated

import typer

from octopipe_cli.cli.output import check_not_an_input, note, save, warn


class MeasuredDtype(str, Enum):
    """Number formats that layers are run in."""

    bf16 = "bf16"
    fp16 = "fp16"
    fp32 = "fp32"


class MeasuredKernels(str, Enum):
    """How norms and gated activations are run."""

    fused = "fused"
    eager = "eager"


def measure_profile(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A Hugging Face config.json, or the name of one that ships.")
    ],
    sequence_length: Annotated[int, typer.Option(min=1, max=10**6, metavar="N", help="Positions of a sequence.")],
    micro_batch_size: Annotated[int, typer.Option(min=1, max=10**6, metavar="B", help="Sequences of a micro-batch.")],
    device: Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or cuda:N.")] = "cpu",
    dtype: Annotated[MeasuredDtype, typer.Option(help="The number format of weights and activations.")] = (
        MeasuredDtype.bf16
    ),
    kernels: Annotated[
        MeasuredKernels,
        typer.Option(
            help="fused: RMS norms and gated activations keep what training kernels keep; eager: as transformers has"
            " them."
        ),
    ] = MeasuredKernels.fused,
    repeats: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", help="How often each pass is timed; the median counts.")
    ] = 20,
    hardware: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the column; by default the device's.", show_default=False),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the profile; by default the config's.", show_default=False),
    ] = None,
) -> None:
    """Measure a model's layers with PyTorch and transformers: one of each kind, at random weights.

    F, I, W and B are timed apart, I and W as PyTorch's pipelining runtime splits them; bytes are what autograd keeps.
    Embedding and head with loss are layers too. The times are those of one device: no tensor or expert parallelism.
    Needs octopipe[torch]. A table is printed on stderr, with the spread of the times: quartile to quartile.

    Example: octopipe profile measure config.json --device cuda --sequence-length 4096 --micro-batch-size 1
    """
    from dataclasses import replace

    from octopipe_cli.formats import check_writable, document_text
    from octopipe_cli.profiling.configs.families import architecture_of, load_config
    from octopipe_cli.profiling.measure import Request, check_device, measure

    check_writable(output)
    check_not_an_input(output, {"config": config})
    found = load_config(config)
    architecture = architecture_of(found)
    if name is not None:
        architecture = replace(architecture, name=name)
    device_name = check_device(device)
    request = Request(sequence_length, micro_batch_size, device, dtype.value, repeats, kernels.value)
    source = {"source": os.path.basename(found.file), "source_digest": found.digest, "device_name": device_name}
    result = measure(found.document, architecture, request, hardware or device_name, source, _progress)
    for warning in result.warnings:
        warn(warning)
    _report(result.document, {kind: measured.spread for kind, measured in result.kinds.items()})
    save(output, document_text(result.document))


def _progress(kind: str, index: int, count: int) -> None:
    note(f"octopipe: measuring {kind} ({index + 1} of {count})")


def _report(document: dict[str, object], spreads: dict[str, float]) -> None:
    from octopipe_cli.profile import profile_from_document
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.profiling import measured_table

    console = make_console(stderr=True)
    table = measured_table(profile_from_document(document, "profile"), spreads, glyphs_of(console), console.width)
    note(rendered(console, table).rstrip("\n"))
