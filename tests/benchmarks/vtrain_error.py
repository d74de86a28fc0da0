"""How far estimated step times are from vTrain's measured iterations: ``python -m tests.benchmarks.vtrain_error``.

The measurements (VIA-Research/vTrain, MIT licence) are GPT iterations of Megatron-DeepSpeed on A100 nodes of 8, rows
with pipeline parallelism. What the files do not say is from vTrain's own validation configs and model code: every
layer recomputed, 1F1B, fp16, softmax without flash attention, dropout, vocabulary 50257 (padded as Megatron pads it),
800 Gb/s between nodes. Assumed here: gradients reduced in 16 bits, no ZeRO, stage boundaries scattered over the
tensor-parallel devices and gathered again (Megatron's default), blocking sends.

The constants of profiles/hardware/a100-80gb.json were found on the even rows (0, 2, ..., of the rows with pipeline
parallelism, in the order of the files, single node first); the odd rows are those to judge by.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.profile import profile_from_document
from octopipe_cli.profiling.architecture import Architecture, Layer
from octopipe_cli.profiling.blocks import Attention, Embedding, Head, Mlp, Norm
from octopipe_cli.profiling.estimate import estimate
from octopipe_cli.profiling.hardware import Figure, Hardware, HardwareLink, load_hardware
from octopipe_cli.profiling.setting import Setting
from octopipe_cli.schedules import one_f_one_b
from octopipe_cli.simulate import simulate

FOLDER = Path(__file__).parents[3] / "shared/reference/vtrain"
FILES = ("iteration_times_single.csv", "iteration_times_multi.csv")


#: What an action costs besides its kernels: that Megatron waits for the device before and after it sends. Fitted, as
#: the hardware's constants.
ACTION_OVERHEAD_US = 1530.0


class Row(NamedTuple):
    """A measured iteration."""

    file: str
    global_batch: int
    micro_batch: int
    hidden: int
    heads: int
    layers: int
    length: int
    tensor: int
    data: int
    pipeline: int
    measured_ms: float

    @property
    def num_microbatches(self) -> int:
        """Micro-batches of a step."""
        return self.global_batch // (self.micro_batch * self.data)

    @property
    def setting(self) -> Setting:
        """How the model was trained."""
        return Setting(
            self.length,
            self.micro_batch,
            self.tensor,
            data_parallel=self.data,
            sequence_parallel=False,
            zero=0,
            grad_dtype="bf16",
            flash_attention=False,
            dropout=True,
            rotary=False,
        )


def measured_rows() -> list[Row]:
    """Return the rows with pipeline parallelism, single node first."""
    rows = []
    for file in FILES:
        with (FOLDER / file).open() as stream:
            for cells in list(csv.reader(stream))[1:]:
                whole = [int(float(cell)) for cell in cells[-10:-1]]
                rows.append(Row(file, *whole, float(cells[-1])))
    return [row for row in rows if row.pipeline > 1]


def gpt(hidden: int, heads: int, layers: int, length: int, vocabulary: int) -> Architecture:
    """Return GPT as Megatron builds it: learned positions, layer norms, biases, head tied to the embedding."""
    mixer = Attention(hidden, heads, heads, hidden // heads, qkv_bias=True, output_bias=True)
    feed_forward = Mlp(hidden, 4 * hidden, gated=False, bias=True)
    norm = Norm(hidden, bias=True)
    return Architecture(
        "gpt",
        "gpt2",
        hidden,
        vocabulary,
        "layer",
        (
            Layer("embedding", (Embedding(vocabulary, hidden, length),), "embedding"),
            *(Layer("layer", (norm, mixer, norm, feed_forward)) for _ in range(layers)),
            Layer("head", (norm, Head(vocabulary, hidden, tied=True)), "head"),
        ),
        ((0, layers + 1),),
    )


def row_architecture(row: Row) -> Architecture:
    """Return a row's model, its vocabulary padded to a multiple of 128 x tensor parallel as Megatron does."""
    multiple = 128 * row.tensor
    return gpt(row.hidden, row.heads, row.layers, row.length, -(-50257 // multiple) * multiple)


@lru_cache(maxsize=1)
def vtrain_hardware() -> Hardware:
    """Return the shipped A100 with vTrain's network: 800 Gb/s a node of 8 devices."""
    return with_network(load_hardware("a100-80gb"))


def with_network(hardware: Hardware) -> Hardware:
    """Return a hardware with vTrain's network: 800 Gb/s a node of 8 devices, 12.5 GB/s each."""
    wide = Figure(value=12.5, source="vTrain's validation configs: inter_node_bandwidth 800 (Gb/s a node)")
    return msgspec.structs.replace(
        hardware, between_nodes=msgspec.structs.replace(hardware.between_nodes, bandwidth_gb_per_s=wide)
    )


def link_of(row: Row, hardware: Hardware) -> HardwareLink:
    """Return the link between a row's stages: inside the node where all devices are in one."""
    inside = row.tensor * row.data * row.pipeline <= hardware.devices_per_node.value
    return hardware.within_node if inside else hardware.between_nodes


def estimated_ms(row: Row, hardware: Hardware) -> float:
    """Return the estimated step time of a row: its profile, 1F1B over equal counts of layers, simulated."""
    document = estimate(row_architecture(row), hardware, row.setting, {})
    for kind in document["kinds"].values():
        kind["output_bytes"] //= row.tensor
        times = kind["times"][hardware.name]
        again = 0.0 if "role" in kind else times["forward_ms"]
        times["backward_ms"] = times["backward_input_ms"] + times["backward_weight_ms"] + again
    link = link_of(row, hardware)
    cable = {
        "bandwidth_gb_per_s": link.bandwidth_gb_per_s.value * link.efficiency.value,
        "latency_us": link.latency_us.value,
    }
    spec: dict[str, Any] = {"schema": "octopipe.cluster", "version": 1, "name": "vtrain", "p2p": "blocking"}
    spec["ranks"] = [{"count": row.pipeline, "hardware": hardware.name, "memory_gib": None}]
    spec["action_overhead_us"] = ACTION_OVERHEAD_US
    spec["links"] = {"within_node": cable, "between_nodes": cable}
    each = row.layers // row.pipeline
    cuts = (0, *(1 + each * stage for stage in range(1, row.pipeline)), row.layers + 2)
    ranks = tuple(range(row.pipeline))
    assignment = Assignment(cuts, ranks, (False,) * row.pipeline)
    profile, cluster = profile_from_document(document, "vtrain"), cluster_from_document(spec, "vtrain")
    pipeline = build_pipeline(profile, cluster, assignment, row.num_microbatches)
    return simulate(pipeline, one_f_one_b(row.pipeline, row.num_microbatches)).step_time_ns / 1e6


class Errors(NamedTuple):
    """Relative errors of some rows."""

    rows: int
    mean: float
    ninetieth: float
    bias: float
    largest: float


def summarised(errors: Sequence[float]) -> Errors:
    """Return mean and 90th percentile of the absolute errors, the mean of the signed ones, the largest."""
    signed = np.array(errors)
    size = np.abs(signed)
    return Errors(
        len(errors), float(size.mean()), float(np.percentile(size, 90)), float(signed.mean()), float(size.max())
    )


def error_table(hardware: Hardware) -> dict[str, Errors]:
    """Return the errors by half of the rows and by file."""
    rows = measured_rows()
    errors = [estimated_ms(row, hardware) / row.measured_ms - 1 for row in rows]
    table = {}
    for half, first in (("even rows (fitted)", 0), ("odd rows", 1)):
        chosen = range(first, len(rows), 2)
        table[half] = summarised([errors[at] for at in chosen])
        for file in FILES:
            table[f"  {half}, {file}"] = summarised([errors[at] for at in chosen if rows[at].file == file])
    return table


def main() -> None:
    """Print the error table."""
    print(f"{'':52}{'rows':>5}{'mean':>8}{'90th':>8}{'bias':>8}{'max':>8}")
    for name, found in error_table(vtrain_hardware()).items():
        shares = "".join(f"{share:8.1%}" for share in found[1:])
        print(f"{name:52}{found.rows:5}{shares}")


if __name__ == "__main__":
    main()
