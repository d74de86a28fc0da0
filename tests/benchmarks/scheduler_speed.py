"""Scheduled actions per second on one core: by size, with and without memory limits, by stages, ranks and lengths.

``python -m tests.benchmarks.scheduler_speed [--seconds S]``
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from octopipe_cli.cluster import Cluster
from octopipe_cli.lengths import lengths_of
from octopipe_cli.list_scheduler import NEVER, new_scratch, schedule, stage_costs
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.profile import Profile, profile_from_document
from tests.benchmarks.tables import plain_cluster, print_table

TURNS = 10
SIZES = ((4, 8, 6), (8, 35, 6), (8, 694, 6))  # ranks, micro-batches, stages a rank: 576, 5,040, 99,936 actions


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the list scheduler")
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent on each figure")
    options = parser.parse_args()
    rows = []
    for ranks, microbatches, per_rank in SIZES:
        actions = 3 * ranks * microbatches * per_rank
        free = measure(ranks, microbatches, per_rank, None, options.seconds)
        # A rank holds its stages' states and so many of their activations: what 1F1B would, or twice that.
        tight, roomy = (measure(ranks, microbatches, per_rank, share, options.seconds) for share in (1.0, 2.0))
        rows.append((f"{actions:,}", *(f"{1e3 / cost:.2f}" if cost else "-" for cost in (free, roomy, tight))))
    print("million actions a second")
    print_table(("actions", "no limits", "twice 1F1B's memory", "1F1B's memory"), rows)
    print("\nns an action by stages a rank, 8 ranks, 64 micro-batches")
    stages = [(str(v), *_costs(8, 64, v, options.seconds)) for v in (1, 2, 4, 8, 12)]
    print_table(("stages a rank", "no limits", "limited"), stages)
    print("\nns an action by ranks, 4 stages a rank, 64 micro-batches")
    counts = [(str(p), *_costs(p, 64, 4, options.seconds)) for p in (2, 4, 8, 16, 32, 64)]
    print_table(("ranks", "no limits", "limited"), counts)
    print(
        "\nns an action beside those without lengths, runs taken by turns: lengths that are all 1, lengths that differ"
    )
    heads = ("8 ranks, 4 stages a rank, 64 micro-batches", "all 1", "differ")
    print_table(
        heads, [(name, *_beside(share, options.seconds)) for name, share in (("no limits", None), ("limited", 2.0))]
    )


def _beside(share: float | None, seconds: float) -> list[str]:
    """Return the cost with lengths over that without, the least of turns that follow on each other."""
    lists: list[list[float] | None] = [None, [1.0] * 64, [0.9 + 0.2 * (m % 2) for m in range(64)]]
    least = [float("inf")] * len(lists)
    for _ in range(TURNS):
        for at, lengths in enumerate(lists):
            least[at] = min(least[at], measure(8, 64, 4, share, seconds / TURNS, lengths) or float("inf"))
    return [f"{cost / least[0]:.3f}" for cost in least[1:]]


def _costs(ranks: int, microbatches: int, per_rank: int, seconds: float) -> tuple[str, ...]:
    costs = (measure(ranks, microbatches, per_rank, share, seconds) for share in (None, 2.0))
    return tuple(f"{cost:.0f}" if cost else "-" for cost in costs)


def measure(
    ranks: int,
    microbatches: int,
    per_rank: int,
    share: float | None,
    seconds: float,
    lengths: list[float] | None = None,
) -> float | None:
    """Return the least ns an action in some runs; None where there is no schedule."""
    stages = ranks * per_rank
    memory_gib = None if share is None else 4 * per_rank + 1 + share * per_rank * (ranks + 1)
    profile, cluster = _profile(stages), _cluster(ranks, memory_gib)
    found = lengths_of(profile, None if lengths is None else {"text": lengths}, microbatches)
    pipeline = build_pipeline(profile, cluster, _assignment(stages, ranks), microbatches, None, found)
    costs, step, memory = stage_costs(pipeline)
    scratch, extra, log = (
        new_scratch(stages, ranks, microbatches),
        np.zeros((2, 0, 0), np.int64),
        np.zeros((0, 4), np.int64),
    )
    rule = (10_000_000, 0, 1_000_000)

    def once() -> int:
        return int(
            schedule(costs, stages, ranks, microbatches, step, memory, (False, False), rule, extra, scratch, NEVER, log)
        )

    if once() >= NEVER:  # compiles, too
        return None
    least, spent = float("inf"), 0.0
    while spent < seconds:
        began = time.perf_counter()
        once()
        taken = time.perf_counter() - began
        least, spent = min(least, taken), spent + taken
    return least * 1e9 / int(scratch.tree[0])


def _profile(layers: int) -> Profile:
    """Return a model of alternating layers; one holds 1 GiB of a micro-batch and 4 GiB of state."""
    gib = 1 << 30
    sizes = {
        "state_bytes": 4 * gib,
        "activation_bytes": gib,
        "weight_activation_bytes": gib // 2,
        "output_bytes": gib // 16,
    }
    times = [(2.7, 4.3, 1.8), (1.8, 1.9, 1.7)]
    kinds = {
        f"k{i}": {
            **sizes,
            "times": {"a100": {"forward_ms": f, "backward_input_ms": b, "backward_weight_ms": w}},
        }
        for i, (f, b, w) in enumerate(times)
    }
    names = [f"k{layer % 2}" for layer in range(layers)]
    return profile_from_document(
        {"schema": "octopipe.profile", "version": 1, "name": "bench", "kinds": kinds, "layers": names}, "profile"
    )


def _cluster(ranks: int, memory_gib: float | None) -> Cluster:
    return plain_cluster(ranks, memory_gib).value


def _assignment(stages: int, ranks: int) -> Assignment:
    return Assignment(tuple(range(stages + 1)), tuple(s % ranks for s in range(stages)), (False,) * stages)


if __name__ == "__main__":
    main()
