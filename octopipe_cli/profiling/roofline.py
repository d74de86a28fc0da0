"""The roofline: how long a pass takes on a hardware.

Work takes the longer of FLOPs / (peak x share) and bytes / (bandwidth x share), and at least a kernel's time. A
layer's pass takes at least what its kernels cost the host to start. The model is Williams, Waterman and Patterson's
(Communications of the ACM 52, 2009); what small matrix products lose to tiles and waves is as in NVIDIA's "Matrix
Multiplication Background" guide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from octopipe_cli.profiling.hardware import Hardware, HardwareLink
from octopipe_cli.profiling.operations import Exchange, Product, Step, Work

#: Rows and columns that one multiprocessor computes of a product, and its rate relative to the largest tile: the
#: smaller the tile, the more bytes it loads a FLOP (the arithmetic intensity of 64 x 64 is 3/8 of 128 x 256's; loads
#: overlap in part: assumed).
TILES: Final = ((128, 256, 1.0), (256, 128, 1.0), (128, 128, 0.92), (64, 128, 0.75), (128, 64, 0.75), (64, 64, 0.55))
#: Over how many parts of k a product may be split, and the rate that is left: partial sums are added (assumed).
SPLITS: Final = ((1, 1.0), (2, 0.9), (4, 0.85), (8, 0.8))


@dataclass(frozen=True, slots=True)
class PassTime:
    """How long a pass takes, and how much of it the bounds of its work account for, in seconds."""

    seconds: float
    compute_seconds: float
    memory_seconds: float
    link_seconds: float
    host_seconds: float

    @property
    def bound(self) -> str:
        """What most of the time goes to: compute, bandwidth, link or host."""
        shares = {
            "compute": self.compute_seconds,
            "bandwidth": self.memory_seconds,
            "link": self.link_seconds,
            "host": self.host_seconds,
        }
        return max(shares, key=lambda name: shares[name])


def pass_time(steps: Sequence[Step], hardware: Hardware, dtype: str = "bf16") -> PassTime:
    """Return how long the steps of a pass take one after another."""
    compute = memory = link = hidden = 0.0
    kernels = 0
    for step in steps:
        if isinstance(step, Exchange):
            seconds = exchange_seconds(step, hardware)
            link += 0.0 if step.hidden else seconds
            hidden += seconds if step.hidden else 0.0
            kernels += step.ranks > 1
            continue
        computing, moving = compute_seconds(step, hardware, dtype), memory_seconds(step, hardware)
        least = step.kernels * hardware.kernel_us.value * 1e-6
        if computing > max(moving, least):
            compute += computing
        else:
            memory += max(moving, least)
        kernels += step.kernels
    link += max(0.0, hidden - compute - memory)
    device = compute + memory + link
    host = max(0.0, kernels * hardware.host_us.value * 1e-6 - device)
    return PassTime(device + host, compute, memory, link, host)


def compute_seconds(work: Work, hardware: Hardware, dtype: str) -> float:
    """Return how long the FLOPs of some work take at the rate its shape allows."""
    if not work.flops:
        return 0.0
    share: float = getattr(hardware.efficiency, work.efficiency).value
    peak = hardware.peak_tflops["bf16"].value
    if work.efficiency.startswith("attention"):
        share *= _saturation(work.length or 1, hardware.attention_half_length.value)
    elif work.product is not None:
        if work.efficiency == "grouped_gemm":
            share *= hardware.efficiency.gemm_forward.value
        if dtype == "fp8" and work.efficiency != "vocabulary_gemm":
            peak, share = hardware.peak_tflops["fp8"].value, share * hardware.efficiency.fp8.value
        share *= filled(work.product, hardware.multiprocessors.value, hardware.gemm_half_depth.value)
    return work.flops / (peak * 1e12 * share)


def memory_seconds(work: Work, hardware: Hardware) -> float:
    """Return how long the bytes of some work take."""
    name = work.efficiency
    share = getattr(hardware.efficiency, name).value if name in _MOVING else hardware.efficiency.memory.value
    return work.bytes / (hardware.memory_bandwidth_gb_per_s.value * 1e9 * share)


_MOVING: Final = frozenset(("scan_memory", "loss", "permute", "embedding", "optimizer"))


def _saturation(length: float, half: float) -> float:
    return length / (length + half)


@cache
def filled(product: Product, multiprocessors: int, half_depth: float) -> float:
    """Return what share of its full rate a matrix product reaches, with the best of a few tile sizes.

    Lost are the parts of tiles that stick out, multiprocessors without a tile in the last wave, and the start and end
    of each tile's loop over k; a product of few tiles is split over k.
    """
    batch, m, n, k = product
    best = 0.0
    for rows, columns, rate in TILES:
        tall, wide = -(-m // rows), -(-n // columns)
        inside = m * n / (tall * rows * wide * columns)
        for split, left in SPLITS:
            tiles = batch * tall * wide * split
            used = tiles / (-(-tiles // multiprocessors) * multiprocessors)
            best = max(best, rate * left * inside * used * _saturation(k / split, half_depth))
    return best


def exchange_seconds(exchange: Exchange, hardware: Hardware) -> float:
    """Return how long a collective takes: its latency a step, and the bytes a device sends over its link.

    Rings: an all-reduce sends 2 (n - 1) / n of the tensor, all-gather, reduce-scatter and all-to-all (n - 1) / n of
    it (Thakur, Rabenseifner and Gropp 2005, as NCCL's bus bandwidth counts); ``ring`` passes the whole tensor n - 1
    times (ring attention's keys and values). Where the group spans nodes, all its members in a node share their
    network links (NCCL uses every NIC).
    """
    ranks = exchange.ranks
    if ranks < 2:
        return 0.0
    share = {"all_reduce": 2 * (ranks - 1) / ranks, "ring": float(ranks - 1)}
    sent = exchange.bytes * share.get(exchange.collective, (ranks - 1) / ranks)
    link, members = link_of(exchange, hardware)
    rate = link.bandwidth_gb_per_s.value * link.efficiency.value * members
    inside = hardware.within_node
    rate = min(rate, inside.bandwidth_gb_per_s.value * inside.efficiency.value)
    hops = 2 * math.log2(ranks) if exchange.collective == "all_reduce" else math.log2(ranks)
    return sent / (rate * 1e9) + hops * link.latency_us.value * 1e-6


def link_of(exchange: Exchange, hardware: Hardware) -> tuple[HardwareLink, int]:
    """Return the slowest link of a group and how many of its members share a node's links."""
    node = hardware.devices_per_node.value
    if exchange.ranks * exchange.stride <= node:
        return hardware.within_node, 1
    members = max(1, node // exchange.stride)
    # In an all-to-all each device sends by its own link; a ring enters and leaves a node once, over all of its
    # members' links.
    return hardware.between_nodes, 1 if exchange.collective == "all_to_all" else members
