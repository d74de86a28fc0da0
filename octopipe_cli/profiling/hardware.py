"""Hardware files: what one device and its links can do, and how much of it each kind of kernel gets."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Record, did_you_mean, one_of, read_document, show
from octopipe_cli.profile import Name
from octopipe_cli.profiling.shipped import shipped_files

SCHEMA: Final = "octopipe.hardware"


class Figure(Record, frozen=True, kw_only=True):
    """A positive number and where it is from."""

    value: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class Share(Record, frozen=True, kw_only=True):
    """A share of a peak, above 0 and at most 1, and where it is from."""

    value: Annotated[float, msgspec.Meta(gt=0, le=1)]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class HardwareLink(Record, frozen=True, kw_only=True):
    """A device's link, one direction: rate, the share that collectives reach, the least time of a message."""

    bandwidth_gb_per_s: Figure
    efficiency: Share
    latency_us: Figure


class Efficiency(Record, frozen=True, kw_only=True):
    """The share of the peak rate (products, attention, scans) or of the bandwidth (the others) a kernel gets.

    Matrix products reach their share where shapes fill the device; `roofline` says what smaller ones lose.
    `grouped_gemm` is relative to a plain matrix product of the same shape, `fp8` to the share in bf16.
    """

    gemm_forward: Share
    gemm_input: Share
    gemm_weight: Share
    grouped_gemm: Share
    vocabulary_gemm: Share
    attention_forward: Share
    attention_backward: Share
    scan: Share
    vector: Share
    fp8: Share
    memory: Share
    scan_memory: Share
    loss: Share
    permute: Share
    embedding: Share
    optimizer: Share


class Count(Record, frozen=True):
    """A number of things, and where it comes from."""

    value: Annotated[int, msgspec.Meta(ge=1, le=10**6)]
    source: Annotated[str, msgspec.Meta(min_length=1)]


class Hardware(Record, frozen=True, kw_only=True):
    """A device: peaks, links, efficiencies, the lengths at which products and attention reach half of theirs.

    `kernel_us` is the least time of a kernel on the device, `host_us` what starting one costs the host.
    """

    schema: Literal["octopipe.hardware"]
    version: Literal[1]
    name: Name
    peak_tflops: dict[Literal["bf16", "fp8"], Figure]
    memory_gib: Figure
    #: What the driver, the communication library and fragmentation keep of it.
    reserved_gib: Figure | None = None
    memory_bandwidth_gb_per_s: Figure
    multiprocessors: Count
    devices_per_node: Count
    within_node: HardwareLink
    between_nodes: HardwareLink
    efficiency: Efficiency
    gemm_half_depth: Figure
    attention_half_length: Figure
    kernel_us: Figure
    host_us: Figure


def load_hardware(name_or_file: str) -> Hardware:
    """Return the hardware of a shipped name (``h100-sxm``), or of a file where the name ends in ``.json``.

    Raises
    ------
    InputError
        Where there is no such name or file, or the file is wrong, with its JSON path.
    """
    shipped = shipped_files("hardware")
    if name_or_file in shipped:
        file = str(shipped[name_or_file])
    elif name_or_file.endswith(".json"):
        file = name_or_file
    else:
        raise InputError(
            f"no hardware {show(name_or_file)}",
            expected=one_of(shipped),
            remedy=did_you_mean(
                name_or_file.lower(), shipped, "give one of these, or a hardware file (its name ends in .json)"
            ),
        )
    hardware = convert(read_document(file, SCHEMA), Hardware, file)
    if "bf16" not in hardware.peak_tflops:
        raise InputError(
            'the key "bf16" is missing', file=file, path="$.peak_tflops", remedy='add "bf16" to this object'
        )
    return hardware
