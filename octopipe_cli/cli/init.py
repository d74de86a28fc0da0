"""``octopipe init``: a model's config and a cluster in a line to files, and to the commands that come next."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from octopipe_cli.cli.output import Format, emit, emit_json, warn
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded
from octopipe_cli.plan import Engine

MAX_DEGREE = 10**6
INPUTS, PARALLEL, TRAINING, OUTPUT = "Inputs", "Parallelism", "Training", "Output"


def init(
    config: Annotated[
        str,
        typer.Argument(
            metavar="CONFIG",
            rich_help_panel=INPUTS,
            help="The model: a Hugging Face config.json, or a name of `octopipe configs`; - is standard input.",
        ),
    ],
    cluster: Annotated[
        str,
        typer.Option(
            metavar="CLUSTER",
            rich_help_panel=INPUTS,
            help="The devices, in a line: 8xh100-sxm, or 2x(4xa100-80gb)@25GB/s. `octopipe hardware` lists the names, "
            "`octopipe help files` says what else can stand there.",
        ),
    ],
    engine: Annotated[
        Engine, typer.Option(rich_help_panel=INPUTS, help="What is to run the plan; any: what could be reached.")
    ] = "any",
    tensor_parallel: Annotated[
        int,
        typer.Option(
            rich_help_panel=PARALLEL, min=1, max=MAX_DEGREE, metavar="T", help="Devices of a node a layer is cut over."
        ),
    ] = 1,
    expert_parallel: Annotated[
        int,
        typer.Option(
            rich_help_panel=PARALLEL, min=1, max=MAX_DEGREE, metavar="E", help="Replicas that share the experts."
        ),
    ] = 1,
    pipeline_parallel: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=PARALLEL,
            min=1,
            max=MAX_DEGREE,
            metavar="P",
            show_default=False,
            help="Ranks of the pipeline; what devices are left make data-parallel replicas. By default as many as the "
            "devices give.",
        ),
    ] = None,
    sequence_length: Annotated[
        int, typer.Option(rich_help_panel=TRAINING, min=1, max=MAX_DEGREE, metavar="N", help="Tokens of a sample.")
    ] = 4096,
    micro_batch_size: Annotated[
        int,
        typer.Option(rich_help_panel=TRAINING, min=1, max=MAX_DEGREE, metavar="B", help="Samples of a micro-batch."),
    ] = 1,
    global_batch_size: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=TRAINING,
            min=1,
            max=10**9,
            metavar="G",
            show_default=False,
            help="Samples of a step over all replicas; by default 4 micro-batches for each rank of the pipeline.",
        ),
    ] = None,
    text_only: Annotated[
        bool,
        typer.Option(
            "--text-only", rich_help_panel=TRAINING, help="Leave a vision encoder and its projector out of the model."
        ),
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="DIR", rich_help_panel=OUTPUT, help="Folder of the files; made if none."
        ),
    ] = ".",
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=OUTPUT, help="Replace the profile and the cluster file.")
    ] = False,
    format: Annotated[Format, typer.Option(rich_help_panel=OUTPUT, help="How what was done is printed.")] = Format.text,
) -> None:
    """Make profile, cluster file and settings from a model's config and a line, and tell what to run next.

    A rank of the pipeline is T x D devices: T that cut each layer, D replicas. The profile is an estimate (octopipe
    profile estimate has more options); files that are there already are kept unless --force is given.

    Example: octopipe init llama-3.1-8b --cluster '2x(4xh100-sxm)@50GB/s' --sequence-length 8192
    """
    from octopipe_cli.cli.degrees import check_nodes, cluster_of, degrees_of
    from octopipe_cli.cli.init_files import Files, write_files
    from octopipe_cli.cli.init_text import commands, summary
    from octopipe_cli.cli.inputs import check_inputs
    from octopipe_cli.cluster_shorthand import EXAMPLES, looks_like, parse
    from octopipe_cli.formats import digest, document_text
    from octopipe_cli.profile import profile_from_document
    from octopipe_cli.profiling.configs.families import architecture_of, load_config
    from octopipe_cli.profiling.setting import Setting
    from octopipe_cli.profiling.vision_setting import seeing

    if not looks_like(cluster):
        raise InputError(
            "not a cluster in a line",
            path="--cluster",
            found=cluster,
            expected=f"the devices: {', '.join(EXAMPLES)}",
            remedy="with a cluster file of your own, octopipe profile estimate is all that is missing",
        )
    line = parse(cluster)
    read = load_config(config)
    architecture, seen = seeing(read, architecture_of(read), "layer", {}, text_only=text_only)
    check_nodes(cluster, tensor_parallel)
    layers = len(architecture.layers)
    degrees = degrees_of(line.num_devices, tensor_parallel, expert_parallel, pipeline_parallel, layers)
    microbatches = _microbatches(global_batch_size, micro_batch_size * degrees.data, degrees.pipeline)
    setting = Setting(
        sequence_length,
        micro_batch_size,
        tensor_parallel=degrees.tensor,
        expert_parallel=degrees.expert,
        data_parallel=degrees.data,
    )
    origin = {"method": "estimated", "config": read.name, "config_digest": read.digest, "granularity": "layer", **seen}
    document = _profile(architecture, line.hardware, setting, origin)
    machine_document, machine = cluster_of(cluster, degrees)
    files = Files.of(architecture.name, output)
    profile = Loaded(profile_from_document(document, files.profile), files.profile, digest(document))
    check_inputs(profile, Loaded(machine, cluster, digest(machine_document)), microbatches)
    settings = write_files(files, document_text(document), document_text(machine_document), force)
    state = sum(kind.state_bytes for kind in map(profile.value.kind_of, range(layers)))
    room = sum(member.memory_limit_bytes or state for member in machine.members)
    if state > room:
        warn(
            f"weights, gradients and optimizer states alone need {state / 2**30:.0f} GiB, the ranks have "
            f"{room / 2**30:.0f}: no plan will fit; give more devices, or a larger --tensor-parallel"
        )
    hybrid = any("mamba" in kind for kind in profile.value.kinds)
    facts = {
        "model": architecture.name,
        "cluster": machine.name,
        "devices": degrees.devices,
        "ranks": degrees.pipeline,
        "devices_per_rank": degrees.devices_per_rank,
        "tensor_parallel": degrees.tensor,
        "expert_parallel": degrees.expert,
        "data_parallel": degrees.data,
        "num_microbatches": microbatches,
        "global_batch_size": microbatches * micro_batch_size * degrees.data,
        "tokens_per_step": microbatches * micro_batch_size * degrees.data * sequence_length,
        "state_bytes": state,
        "memory_bytes": room,
        "files": [files.profile, files.cluster, *([files.settings] if settings else [])],
        "next": [{"what": what, "run": run} for what, run in commands(files, microbatches, engine, hybrid)],
    }
    if format is Format.json:
        emit_json(facts)
        return
    from octopipe_cli.render.console import make_console

    emit(summary(facts, files, settings, make_console().width))


def _microbatches(global_batch_size: int | None, samples: int, ranks: int) -> int:
    """Return the micro-batches of a step; `samples` are those of one over all replicas."""
    if global_batch_size is None:
        return 4 * ranks
    if global_batch_size % samples:
        raise InputError(
            "the global batch cannot be cut into micro-batches",
            found=f"{global_batch_size} samples, {samples} in a micro-batch of all replicas",
            expected=f"a --global-batch-size that {samples} divides",
        )
    return global_batch_size // samples


def _profile(architecture: Any, hardware: tuple[str, ...], setting: Any, origin: Document) -> Document:
    """Return the estimated profile, with a column for each hardware."""
    from octopipe_cli.formats import digest
    from octopipe_cli.profile import profile_from_document
    from octopipe_cli.profiling.estimate import estimate, setting_provenance
    from octopipe_cli.profiling.hardware import load_hardware
    from octopipe_cli.profiling.merge import merge

    made = []
    for name in hardware:
        device = load_hardware(name)
        made.append(estimate(architecture, device, setting, {**origin, **setting_provenance(device, setting)}))
    if len(made) == 1:
        return made[0]
    parts = [
        Loaded(profile_from_document(document, name), name, digest(document))
        for document, name in zip(made, hardware, strict=True)
    ]
    return merge(parts, take_larger=True)
