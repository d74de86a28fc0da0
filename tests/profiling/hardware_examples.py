"""A hardware with round numbers, for exact values."""

from __future__ import annotations

from typing import Any

from octopipe_cli.conversion import convert
from octopipe_cli.profiling.hardware import Efficiency, Hardware


def figure(value: float) -> dict[str, Any]:
    return {"value": value, "source": "made up"}


def link(bandwidth: float, latency: float) -> dict[str, Any]:
    return {"bandwidth_gb_per_s": figure(bandwidth), "efficiency": figure(0.5), "latency_us": figure(latency)}


def round_document() -> dict[str, Any]:
    """100 TFLOP/s, 1000 GB/s, everything at half its peak, 4 devices a node; no losses to shapes, no least times."""
    return {
        "schema": "octopipe.hardware",
        "version": 1,
        "name": "round",
        "peak_tflops": {"bf16": figure(100), "fp8": figure(200)},
        "memory_gib": figure(10),
        "memory_bandwidth_gb_per_s": figure(1000),
        "multiprocessors": figure(1),
        "devices_per_node": figure(4),
        "within_node": link(100, 1),
        "between_nodes": link(10, 10),
        "efficiency": {name: figure(0.5) for name in Efficiency.__struct_fields__},
        "gemm_half_depth": figure(1e-9),
        "attention_half_length": figure(1e-9),
        "kernel_us": figure(1e-9),
        "host_us": figure(1e-9),
    }


def round_hardware() -> Hardware:
    return convert(round_document(), Hardware, "round.json")
