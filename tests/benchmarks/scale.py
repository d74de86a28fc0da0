"""Wall time and peak memory of large instances.

``python -m tests.benchmarks.scale [wide|large]``: P 16, M 64, 96 layers at quick; ``wide``: P 32, M 256, 128 layers, at
most 4 stages a rank; ``large``: P 64, M 256, 128 layers.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

from octopipe_cli.formats import Loaded, digest
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.search import make_plan
from tests.benchmarks.tables import milliseconds, plain_cluster, print_table

MODEL = Path(__file__).parents[2] / "profiles" / "models" / "nemotron-h-47b.json"
CASES = {"usual": (16, 64, 96, None), "wide": (32, 256, 128, 4), "large": (64, 256, 128, None)}


def main() -> None:
    parser = argparse.ArgumentParser(description="plan a large instance")
    parser.add_argument("case", nargs="?", choices=list(CASES), default="usual")
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="quick")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--memory-gib", type=float, default=None)
    options = parser.parse_args()
    ranks, microbatches, layers, most = CASES[options.case]
    began = time.perf_counter()
    plan = make_plan(
        model_of(layers),
        plain_cluster(ranks, options.memory_gib),
        Request(num_microbatches=microbatches, effort=options.effort, max_stages_per_rank=most),
        jobs=options.jobs,
    )
    wall = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    head = ("P", "M", "layers", "ours", "bound", "gap %", "stages", "stopped by", "s", "peak GiB")
    row = (
        *map(str, (ranks, microbatches, layers)),
        milliseconds(plan.predicted.step_time_ns),
        milliseconds(plan.bound.step_time_ns),
        f"{100 * plan.bound.gap:.2f}",
        str(len(plan.stages)),
        plan.search.stopped_by,
        f"{wall:.1f}",
        f"{peak:.2f}",
    )
    print_table(head, [row])


def model_of(layers: int) -> Loaded[Profile]:
    """Return a shipped hybrid model with its decoder layers repeated or cut to so many layers in all."""
    document: dict[str, Any] = json.loads(MODEL.read_text())
    kinds = list(profile_from_document(document, "profile").layer_kinds)
    inner = kinds[1:-1]
    repeated = (inner * (layers // len(inner) + 1))[: layers - 2]
    document["layers"] = [kinds[0], *repeated, kinds[-1]]
    document["name"] = f"hybrid-{layers}"
    return Loaded(profile_from_document(document, "profile"), "profile", digest(document))


if __name__ == "__main__":
    main()
