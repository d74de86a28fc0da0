"""Profiles measured with PyTorch: the layers of a config, one of each kind, at random weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple

from octopipe_cli import __version__
from octopipe_cli.errors import InputError
from octopipe_cli.formats import VERSION, Document
from octopipe_cli.profile import SCHEMA, compress, profile_from_document
from octopipe_cli.profiling.architecture import Architecture, Layer, walk
from octopipe_cli.profiling.blocks import GatedDeltaNet, KimiDeltaAttention, Mamba1, Mamba2, Shared
from octopipe_cli.profiling.measure_passes import WARMUP, Measured, spread_of

Dtype = Literal["bf16", "fp16", "fp32"]
Kernels = Literal["fused", "eager"]
#: A spread from which a median is not to be trusted, relative.
WIDE: Final = 0.1
#: Blocks that transformers runs as loops of tensor operations where packages with kernels for them are missing.
SCANS: Final = (Mamba1, Mamba2, GatedDeltaNet, KimiDeltaAttention)
SCAN_KERNELS: Final = ("mamba_ssm", "fla")
#: Weights, fp32 gradients, Adam's fp32 copy and moments; in fp32 there is no copy.
STATE_BYTES: Final[Mapping[Dtype, int]] = {"bf16": 18, "fp16": 18, "fp32": 16}


@dataclass(frozen=True)
class Request:
    """What to measure.

    Parameters
    ----------
    device
        ``cpu``, ``cuda`` or ``cuda:1``.
    kernels
        ``fused``: norms and gated activations keep what training kernels keep; ``eager``: as transformers has them.
    repeats
        How often each pass is timed, after the warm-up.
    """

    sequence_length: int
    micro_batch_size: int
    device: str = "cpu"
    dtype: Dtype = "bf16"
    repeats: int = 20
    kernels: Kernels = "fused"


class Measurement(NamedTuple):
    """A measured profile, what was measured by kind, and what its reader should know."""

    document: Document
    kinds: dict[str, Measured]
    warnings: list[str]


def check_device(device: str) -> str:
    """Return the name of the device that was asked for, as a hardware column.

    Raises
    ------
    InputError
        Where torch or transformers is missing, or there is no such device.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler, which counts the CPU's memory, is loud otherwise
    try:
        import torch
        import transformers  # noqa: F401 (whether it is there)
    except ImportError as error:
        raise InputError(
            f"measuring needs torch and transformers: {error.name or error} is not installed",
            remedy="pip install 'octopipe[torch]', or use `octopipe profile estimate`",
        ) from None
    if device == "cpu":
        return "cpu"
    kind, _, index = device.partition(":")
    if kind != "cuda" or (index and not index.isdecimal()):
        raise InputError("no such kind of device", found=device, expected="cpu, cuda or cuda:N")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(index or 0) >= count:
        raise InputError(
            f"torch {torch.__version__} sees no device {device}",
            found=f"{count} CUDA devices",
            remedy="give --device cpu, or one that torch sees",
        )
    return str(torch.cuda.get_device_name(device))


def measure(
    document: Document,
    architecture: Architecture,
    request: Request,
    hardware: str,
    provenance: Document,
    progress: Callable[[str, int, int], None] = lambda kind, index, count: None,
) -> Measurement:
    """Return the measured profile of a config.

    Parameters
    ----------
    document, architecture
        The config and what was read from it, layer by layer as the config counts.
    request
        Lengths, device, number format.
    hardware
        Name of the column.
    provenance
        What the profile says of its origin, first.
    progress
        Called before each kind: its name, its index, how many there are.
    """
    import torch

    from octopipe_cli.profiling.measure_model import pieces_of
    from octopipe_cli.profiling.measure_passes import measure_piece

    warnings = []
    model = _without_mtp(architecture)
    if model is not architecture:
        warnings.append("transformers has no multi-token prediction: the profile has no MTP depths")
    if request.device != "cpu":
        torch.cuda.set_device(request.device)
    torch.manual_seed(0)
    found: dict[str, Measured] = {}
    pieces = pieces_of(
        document,
        model,
        device=request.device,
        dtype=request.dtype,
        batch=request.micro_batch_size,
        length=request.sequence_length,
        fused=request.kernels == "fused",
    )
    names = list(model.kinds)
    progress(names[0], 0, len(names))
    for index, piece in enumerate(pieces):
        found[piece.kind] = measure_piece(piece, request.device, request.repeats)
        warnings += _warnings(model.kinds[piece.kind], found[piece.kind], model, request)
        if index + 1 < len(names):
            progress(names[index + 1], index + 1, len(names))
    result = _document(model, request, hardware, provenance, found)
    profile_from_document(result, model.name)
    return Measurement(result, found, warnings)


def _without_mtp(architecture: Architecture) -> Architecture:
    """Return the architecture without its MTP depths, groups of tied layers renumbered."""
    kept = [index for index, layer in enumerate(architecture.layers) if layer.role != "mtp"]
    if len(kept) == len(architecture.layers):
        return architecture
    place = {old: new for new, old in enumerate(kept)}
    groups = (tuple(place[index] for index in group if index in place) for group in architecture.tied)
    layers = tuple(architecture.layers[index] for index in kept)
    return replace(architecture, layers=layers, tied=tuple(group for group in groups if len(group) > 1))


def _warnings(layer: Layer, measured: Measured, architecture: Architecture, request: Request) -> list[str]:
    found = []
    spreads = {name: spread_of(values) for name, values in measured.milliseconds.items()}
    wide = [f"{name} by {spread:.0%}" for name, spread in spreads.items() if spread > WIDE]
    if wide:
        found.append(f"{layer.kind}: the times spread widely ({', '.join(wide)}): measure again with nothing beside it")
    scans = any(isinstance(block, SCANS) for block in walk(layer.blocks))
    if scans and (request.device == "cpu" or not any(map(find_spec, SCAN_KERNELS))):
        found.append(
            f"{layer.kind}: its scan ran as plain PyTorch (no kernels of {' or '.join(SCAN_KERNELS)} there): times and"
            " bytes are far above theirs"
        )
    tied_head = layer.role == "head" and any(0 in group for group in architecture.tied)
    if not tied_head and not _shares(layer) and measured.parameters != layer.parameters:
        found.append(
            f"{layer.kind}: transformers' layer has {measured.parameters} parameters, the config says"
            f" {layer.parameters}"
        )
    if not measured.splittable:
        found.append(f"{layer.kind}: PyTorch cannot split its backward ({measured.why}): B only")
    return found


def _document(
    model: Architecture, request: Request, hardware: str, provenance: Document, found: Mapping[str, Measured]
) -> Document:
    import torch
    import transformers

    return {
        "schema": SCHEMA,
        "version": VERSION,
        "name": model.name,
        "provenance": {
            "method": "measured",
            **provenance,
            "device": request.device,
            "kernels": request.kernels,
            "backward": "split as torch.distributed.pipelining does",
            "states": "Adam, fp32 gradients, nothing sharded",
            "repeats": request.repeats,
            "warmup": WARMUP,
            "spread": {kind: round(measured.spread, 4) for kind, measured in found.items()},
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "tool": f"octopipe {__version__}",
        },
        "training": {
            "sequence_length": request.sequence_length,
            "micro_batch_size": request.micro_batch_size,
            "dtype": request.dtype,
        },
        "kinds": {
            kind: _kind(layer, found[kind], hardware, STATE_BYTES[request.dtype]) for kind, layer in model.kinds.items()
        },
        "layers": compress(tuple(layer.kind for layer in model.layers)),
        **({"rules": {"tied": [list(group) for group in model.tied]}} if model.tied else {}),
    }


def _kind(layer: Layer, measured: Measured, hardware: str, state_bytes: int) -> Document:
    """Return the kind as profiles hold it. The embedding has no I: its W is its whole backward."""
    backward = _rounded(measured.median("B"))
    times = {"forward_ms": _rounded(measured.median("F"))}
    if "I" not in measured.milliseconds:
        times |= {"backward_input_ms": 0.0, "backward_weight_ms": backward}
    else:
        inputs, weights = _rounded(measured.median("I")), _rounded(measured.median("W"))
        if not measured.splittable:  # W alone ran part of I again
            inputs = min(inputs, backward)
            weights = _rounded(backward - inputs)
        times |= {"backward_input_ms": inputs, "backward_weight_ms": weights, "backward_ms": backward}
    return {
        "parameters": layer.parameters,
        "state_bytes": state_bytes * layer.parameters,
        "activation_bytes": measured.activation_bytes,
        "weight_activation_bytes": measured.weight_activation_bytes,
        "output_bytes": measured.output_bytes * (1 if layer.role == "head" else layer.carried),
        "workspace_bytes": measured.workspace_bytes,
        **({} if measured.splittable and not _shares(layer) else {"splittable": False}),
        **({} if layer.role == "decoder" else {"role": layer.role}),
        "times": {hardware: times},
    }


def _shares(layer: Layer) -> bool:
    """Return whether a layer has shared blocks: a stage that uses their weights twice cannot be split."""
    return any(isinstance(block, Shared) for block in layer.blocks)


def _rounded(milliseconds: float) -> float:
    return round(milliseconds, 6)
