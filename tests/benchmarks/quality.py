"""The quality table: the peer's tuner and baselines, the best classic schedule, our plan, the bound, gap and time.

``python -m tests.benchmarks.quality [--effort quick|standard|thorough] [--jobs N] [--rows N ...]``
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from octopipe_cli.plan import Request
from octopipe_cli.profile import load_profile
from octopipe_cli.search import make_plan
from tests.benchmarks.tables import milliseconds, plain_cluster, print_table

ROOT = Path(__file__).parents[2]
PEER = ROOT.parent / "shared" / "reference" / "peer_results.json"
HEADS = (
    "profile",
    "P",
    "M",
    "1F1B",
    "interl.",
    "tuner",
    "classic",
    "ours",
    "bound",
    "gap %",
    "vs tuner %",
    "stages",
    "s",
)

#: Shipped profiles with the ranks and micro-batches of the peer's published rows.
ROWS = (
    ("nemotron-nano-9b-v2", "nemotron-nano-v2-9B", 4, 8),
    ("llama3-8b", "llama3-8B", 4, 16),
    ("jamba-52b", "jamba-52B", 4, 16),
    ("nemotron-h-4b", "nemotron-h-4B", 4, 16),
    ("jamba-20b", "jamba-20B", 4, 16),
    ("llama3-32b", "llama3-32B", 8, 32),
    ("nemotron-h-47b", "nemotron-h-47B", 8, 32),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="print the quality table")
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="standard")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, nargs="*", help="numbers of rows, from 1 (default: all)")
    options = parser.parse_args()
    peers = _peers()
    rows, gaps = [], []
    for number in options.rows or range(1, len(ROWS) + 1):
        file, name, ranks, microbatches = ROWS[number - 1]
        peer = peers.get((name, ranks, microbatches), {})
        profile = load_profile(str(ROOT / "profiles" / "models" / f"{file}.json"))
        request = Request(num_microbatches=microbatches, effort=options.effort, seed=options.seed)
        began = time.perf_counter()
        plan = make_plan(profile, plain_cluster(ranks), request, jobs=options.jobs)
        wall = time.perf_counter() - began
        ours, tuner = plan.predicted.step_time_ns, peer.get("tuner_ms")
        gaps.append(100 * plan.bound.gap)
        rows.append(
            (
                file,
                str(ranks),
                str(microbatches),
                *(_published(peer.get(key)) for key in ("one_f_one_b_ms", "interleaved_2_ms", "tuner_ms")),
                milliseconds(plan.baseline.step_time_ns if plan.baseline else None),
                milliseconds(ours),
                milliseconds(plan.bound.step_time_ns),
                f"{gaps[-1]:.2f}",
                f"{100 * (ours / 1e6 / tuner - 1):+.2f}" if tuner else "-",
                str(len(plan.stages)),
                f"{wall:.1f}",
            )
        )
    print(f"effort {options.effort}, {options.jobs} jobs; step times in ms")
    print_table(HEADS, rows)
    print(f"gap: mean {sum(gaps) / len(gaps):.2f} %, worst {max(gaps):.2f} %")


def _peers() -> dict[tuple[str, int, int], dict[str, Any]]:
    if not PEER.is_file():
        return {}
    rows = json.loads(PEER.read_text())["rows"]
    return {(row["profile"], row["ranks"], row["microbatches"]): row for row in rows}


def _published(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main()
