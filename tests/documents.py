"""Example files for tests: small ones in ``data/files``, and ones that use every key of the formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data" / "files"
PROFILE, CLUSTER, PLAN = DATA / "toy.profile.json", DATA / "pair.cluster.json", DATA / "toy.plan.json"
MODELS = Path(__file__).parents[1] / "profiles" / "models"
CLUSTERS = Path(__file__).parents[1] / "profiles" / "clusters"


def toy(file: Path) -> dict[str, Any]:
    """Return one of the small files as a document."""
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def full_profile() -> dict[str, Any]:
    """Return a profile that uses every key there is."""
    sizes = {"state_bytes": 6, "activation_bytes": 5, "weight_activation_bytes": 4, "output_bytes": 3}
    times = {"forward_ms": 1.5, "backward_input_ms": 2, "backward_weight_ms": 0.25, "backward_ms": 2.2, "step_ms": 0.1}
    return {
        "schema": "octopipe.profile",
        "version": 1,
        "name": "hybrid",
        "provenance": {"method": "written", "any": ["thing", {"may": None}]},
        "training": {
            "sequence_length": 8192,
            "micro_batch_size": 2,
            "dtype": "bf16",
            "tensor_parallel": 8,
            "context_parallel": 1,
            "expert_parallel": 4,
            "data_parallel": 16,
        },
        "kinds": {
            "embedding": {"role": "embedding", "parameters": 7, **sizes, "times": {"a": times, "b": times}},
            "mixer": {"workspace_bytes": 9, "splittable": False, "times": {"a": times, "b": times}},
            "ff": {"role": "decoder", "times": {"b": times, "a": times, "c": times}},
            "mtp": {"role": "mtp", "parameters": 11, "times": {"a": times, "b": times}},
            "head": {"role": "head", "parameters": 13, "times": {"a": times, "b": times}},
        },
        "layers": ["embedding", {"repeat": 2, "of": ["mixer", {"repeat": 3, "of": ["ff"]}]}, "mtp", "head"],
        "rules": {"same_rank": [[9, 10]], "tied": [[0, 10]], "no_cut_after": [1, 5]},
    }


def full_cluster() -> dict[str, Any]:
    """Return a cluster spec that uses every key there is."""
    return {
        "schema": "octopipe.cluster",
        "version": 1,
        "name": "racks",
        "provenance": {"note": "by hand"},
        "ranks": [
            {"count": 2, "hardware": "a", "memory_gib": 80, "reserved_gib": 4, "speed": 1.25, "node": 0},
            {"hardware": "b", "memory_gib": None, "node": 1},
        ],
        "links": {
            "within_node": {"bandwidth_gb_per_s": 200, "latency_us": 5},
            "between_nodes": {"bandwidth_gb_per_s": None, "latency_us": 10.5},
            "pairs": [{"from": 0, "to": 2, "bandwidth_gb_per_s": 12.5}],
        },
        "action_overhead_us": 3.0005,
        "p2p": "blocking",
    }


def full_plan() -> dict[str, Any]:
    """Return a plan that uses every key there is; it reads, but keeps no rule."""
    document = toy(PLAN)
    document["request"] |= {"max_stages_per_rank": 2, "objective": "span", "placement": "cyclic"}
    document["predicted"]["ranks"][0]["engine_memory_bytes"] = 5
    document["bound"] |= {"span_ns": 19, "plan_ns": 21}
    document["baseline"] = {"schedule": "1f1b", "partition": "equal", "step_time_ns": 30, "speedup": 1.1}
    document["stages"][0]["kinds"] = [{"repeat": 2, "of": ["embedding"]}]
    document["search"] |= {"candidates": 12}
    document["provenance"] = {"wall_s": 1.5}
    return document
