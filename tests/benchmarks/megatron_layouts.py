"""NVIDIA's hand-written layouts beside our plans for Megatron-LM: the same profile, ranks, stages a rank and memory.

``python -m tests.benchmarks.megatron_layouts [--effort quick|standard|thorough] [--jobs N] [--rows N ...]``

Profiles are estimates for H100s at a sequence length of 4096; ranks have what memory the layout needs at its peak, and
no more. Layouts: recipes of Megatron-Bridge and its pull request 5391.
"""

from __future__ import annotations

import argparse
import functools
import time
from typing import Any

from octopipe_cli.classic.layout import PricedLayout, price_layout
from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.formats import Document, Loaded, digest
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.profiling.configs.families import architecture_of, load_config
from octopipe_cli.profiling.estimate import estimate
from octopipe_cli.profiling.hardware import load_hardware
from octopipe_cli.profiling.setting import Setting
from octopipe_cli.search import make_plan
from tests.benchmarks.tables import milliseconds, print_table

HARDWARE = "h100-sxm"
HEADS = ("config", "P", "V", "M", "layout", "ours", "ratio", "stages", "s")
DEEPSEEK = Setting(4096, 1, expert_parallel=8, data_parallel=8)
DENSE = Setting(4096, 1, tensor_parallel=4)

#: Config, setting, ranks, micro-batches, layout.
ROWS = (
    ("deepseek-v3", DEEPSEEK, 4, 32, "Et*16|t*16|t*16|t*13mL"),
    ("deepseek-v3", DEEPSEEK, 8, 64, "Et*8|(t*8|)*6t*5mL"),
    ("deepseek-v3", DEEPSEEK, 4, 32, "Et*8|(t*8|)*6t*5mL"),
    ("deepseek-v3", DEEPSEEK, 16, 64, "Et*4|(t*4|)*14tmL"),
    ("deepseek-v3", DEEPSEEK, 8, 64, "Et*4|(t*4|)*14tmL"),
    ("deepseek-v3", DEEPSEEK, 4, 32, "Et*4|(t*4|)*14tmL"),
    ("deepseek-v3", DEEPSEEK, 8, 64, "Et*3|(tt|)*29,m|L"),
    ("kimi-k2", DEEPSEEK, 4, 32, "Et*16|t*16|t*16|t*13L"),
    ("kimi-k2", DEEPSEEK, 8, 64, "Et*8|(t*8|)*6t*5L"),
    ("kimi-k2", DEEPSEEK, 4, 32, "Et*4|(t*4|)*14tL"),
    ("llama-3.1-70b", DENSE, 8, 64, "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="print the table of hand-written layouts")
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="quick")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="*", help="numbers of rows, from 1 (default: all)")
    options = parser.parse_args()
    rows = []
    for number in options.rows or range(1, len(ROWS) + 1):
        name, setting, ranks, count, layout = ROWS[number - 1]
        profile = estimated(name, setting)
        priced = price_layout(profile.value, cluster_of(ranks).value, count, layout, recompute="none")
        began = time.perf_counter()
        request = Request(
            num_microbatches=count,
            engine="megatron",
            effort=options.effort,
            recompute="none",
            max_stages_per_rank=priced.stages_per_rank,
        )
        plan = make_plan(profile, cluster_of(ranks, priced), request, jobs=options.jobs)
        hand, ours = priced.timeline.step_time_ns, plan.predicted.step_time_ns
        wall = f"{time.perf_counter() - began:.0f}"
        shape = (name, str(ranks), str(priced.stages_per_rank), str(count))
        rows.append((*shape, milliseconds(hand), milliseconds(ours), f"{hand / ours:.3f}", str(len(plan.stages)), wall))
        print(layout, *rows[-1], flush=True)
    print_table(HEADS, rows)


@functools.cache
def estimated(name: str, setting: Setting) -> Loaded[Profile]:
    """Return the estimated profile of a shipped config."""
    document = estimate(architecture_of(load_config(name)), load_hardware(HARDWARE), setting, {"method": "estimated"})
    return Loaded(profile_from_document(document, name), name, digest(document))


def cluster_of(num_ranks: int, priced: PricedLayout | None = None) -> Loaded[Cluster]:
    """Return ranks linked by 50 GB/s, without limits or with what a layout needs of memory on its fullest rank."""
    hardware = next(iter(estimated(*ROWS[0][:2]).value.hardware))
    ranks: list[dict[str, Any]] = [{"count": num_ranks, "hardware": hardware, "memory_gib": None}]
    if priced is not None:
        ranks[0]["memory_gib"] = (max(priced.timeline.peak_memory_bytes) + 1) / 2**30
    links = {"within_node": {"bandwidth_gb_per_s": 50, "latency_us": 10}}
    document: Document = {"schema": "octopipe.cluster", "version": 1, "name": "h100s", "ranks": ranks, "links": links}
    return Loaded(cluster_from_document(document, "cluster"), "cluster", digest(document))


if __name__ == "__main__":
    main()
