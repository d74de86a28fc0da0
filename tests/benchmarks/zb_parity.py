"""Orders alone, against the zero-bubble authors' own schedulers: partition and placement as in their rows.

``python -m tests.benchmarks.zb_parity [--every N]``: how many rows of the recorded results are reached, how many are
beaten, in step time and in span. The results stand in ``../shared/reference/zb_results.json``.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.pipeline import Assignment, Pipeline, build_pipeline
from octopipe_cli.plan import Objective, Orders, Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.schedules import zb_h1, zb_h2, zb_v, zero_bubble
from octopipe_cli.schedules.greedy import ActivationLimit
from octopipe_cli.search.polish import polish
from octopipe_cli.search.tuner import Tuner, Watch
from octopipe_cli.simulate import Timeline, simulate

RESULTS = Path(__file__).parents[3] / "shared" / "reference" / "zb_results.json"
UNIT_BYTES = 2**20
#: Their ticks are ms here.
RULES_WORK, REORDER_WORK, POLISH_TIME = 4_000_000, 10_000_000, 2.0


class Row(NamedTuple):
    """A recorded case: times by stage in ms, and the best of the authors' schedulers by objective."""

    name: str
    profile: Profile
    cluster: Cluster
    ranks: tuple[int, ...]
    num_microbatches: int
    best: dict[Objective, float]


def main() -> None:
    parser = argparse.ArgumentParser(description="orders against the zero-bubble authors' schedulers")
    parser.add_argument("--every", type=int, default=1, help="take one row in so many")
    options = parser.parse_args()
    if not RESULTS.is_file():
        raise SystemExit(f"no recorded results at {RESULTS}")
    for objective in ("step", "span"):
        ratios, slower = [], []
        for row in list(rows(json.loads(RESULTS.read_text())))[:: options.every]:
            timeline = best_orders(row, objective)
            value = timeline.step_time_ns if objective == "step" else timeline.span_ns
            ratio = value / 1e6 / row.best[objective]
            ratios.append(ratio)
            if ratio > 1 + 1e-9:
                slower.append((row.name, value / 1e6, row.best[objective]))
                print(f"slower: {row.name} {objective} {value / 1e6:.3f} against {row.best[objective]}", flush=True)
        faster = [ratio for ratio in ratios if ratio < 1 - 1e-9]
        gain = 1 - sum(faster) / len(faster) if faster else 0.0
        print(
            f"{objective}: {len(ratios)} rows, {len(slower)} slower, {len(faster)} faster, by {gain:.1%} on the average"
            f" and {1 - min(ratios):.1%} at most",
            flush=True,
        )


def rows(results: dict[str, Any]) -> Iterator[Row]:
    """Yield the recorded rows that have a scheduler's result."""
    for row in results["instances"]:
        if not row["results"]:
            continue
        p, v = row["p"], row["chunks_per_device"]
        times = [tuple(row[key] for key in "FBW")] * (p * v)  # of a stage: halved already where there are two a rank
        upward, downward = tuple(range(p)), tuple(reversed(range(p)))
        ranks = upward if v == 1 else upward + (downward if row["placement"] == "V" else upward)
        shape = (row["mem_F"], -row["mem_W"])
        limit = row["mem_limit_per_device"]
        within = [r for r in row["results"] if limit is None or r["peak_mem"] <= limit]
        if within:
            best: dict[Objective, float] = {
                "step": min(r.get("best_makespan", r["makespan"]) for r in within),
                "span": min(r["own_span"] for r in within),
            }
            yield _row(row["id"], times, ranks, row["m"], row["C"], limit, shape, best)
    for row in results["heterogeneous"]:
        found = [row[key] for key in ("zb_true_costs", "zb_median_costs") if row[key]["peak"] <= row["K"]]
        if found:
            best = {"step": min(r["best_makespan"] for r in found), "span": min(r["best_own"] for r in found)}
            times = list(zip(row["F"], row["B"], row["W"], strict=True))
            name = f"{row['name']} P{row['p']} M{row['m']} K{row['K']}"
            yield _row(name, times, tuple(range(row["p"])), row["m"], row["C"], row["K"], (1, 1), best)


def _row(
    name: str,
    times: list[Any],
    ranks: tuple[int, ...],
    num_microbatches: int,
    delay: float,
    limit: float | None,
    shape: tuple[int, int],
    best: dict[Objective, float],
) -> Row:
    kinds = {
        f"s{s}": {
            "times": {"gpu": {"forward_ms": f, "backward_input_ms": b, "backward_weight_ms": w}},
            "activation_bytes": shape[0] * UNIT_BYTES,
            "weight_activation_bytes": shape[1] * UNIT_BYTES,
        }
        for s, (f, b, w) in enumerate(times)
    }
    profile = {"schema": "octopipe.profile", "version": 1, "name": name, "kinds": kinds, "layers": list(kinds)}
    count = max(ranks) + 1
    cluster = {
        "schema": "octopipe.cluster",
        "version": 1,
        "name": name,
        "ranks": [
            {"count": count, "hardware": "gpu", "memory_gib": None if limit is None else limit * UNIT_BYTES / 2**30}
        ],
        "links": {"within_node": {"latency_us": delay * 1000}},
    }
    return Row(
        name,
        profile_from_document(profile, "profile"),
        cluster_from_document(cluster, "cluster"),
        ranks,
        num_microbatches,
        best,
    )


def best_orders(row: Row, objective: Objective) -> Timeline:
    """Return the best timeline found for a row's own partition and placement."""
    request = Request(num_microbatches=row.num_microbatches, objective=objective, recompute="none")
    assignment = Assignment(tuple(range(len(row.ranks) + 1)), row.ranks, (False,) * len(row.ranks))
    pipeline = build_pipeline(row.profile, row.cluster, assignment, row.num_microbatches)
    tuner = Tuner(row.profile, row.cluster, request, Watch(threading.Event(), None), 2)
    found = tuner.first_look([assignment], [None], RULES_WORK)
    floor = tuner.plan_bound(found[0])
    found = tuner.reorder([entry for entry in found if entry.value < NEVER], REORDER_WORK, 0.0003, floor)
    timelines = [simulate(pipeline, tuner.orders(entry)) for entry in found]
    one_each = len(row.ranks) == max(row.ranks) + 1
    classic = (zb_v,) if _in_v(row.ranks) else (zb_h1, zb_h2) if one_each else ()
    timelines += [simulate(pipeline, orders(pipeline, objective)) for orders in (*classic, _as_memory_allows)]

    def value(timeline: Timeline) -> int:
        return timeline.step_time_ns if objective == "step" else timeline.span_ns

    timelines = sorted((timeline for timeline in timelines if timeline.fits), key=value)[:2]
    polished = [
        polish(
            timeline,
            objective=objective,
            floor_ns=floor,
            deterministic_time=POLISH_TIME,
            deadline=None,
            stop=lambda: False,
        )
        for timeline in timelines
    ]
    return min(polished, key=value)


def _as_memory_allows(pipeline: Pipeline, objective: Objective) -> Orders:
    """Return zero-bubble orders under the ranks' memory alone, without a number of activations."""
    held = tuple(stage.bytes.held for stage in pipeline.stages)
    weight = tuple(stage.bytes.weight for stage in pipeline.stages)
    most = pipeline.num_microbatches * max(held)
    units = tuple(most if limit is None else limit for limit in pipeline.limit_bytes)
    return zero_bubble(pipeline, ActivationLimit(units, held, weight), objective)


def _in_v(ranks: tuple[int, ...]) -> bool:
    return len(ranks) > max(ranks) + 1 and ranks[-1] == 0


if __name__ == "__main__":
    main()
