"""What partition, placement and schedule are worth alone, in pairs and together, on the paper's profiles.

``python -m tests.benchmarks.ablation [--effort quick|standard|thorough] [--jobs N] [--rows N ...]``

All begin from one plan: equal layer counts, stages in a circle, the better of 1F1B and Megatron-LM's interleaved 1F1B.
What a column does not name is held fixed with ``--keep``; a search begins from the fastest plan before it that has
those parts. An order belongs to ranks: where the placement changes and the schedule is not to, orders are made anew
with the backward in one piece, as in 1F1B.
"""

from __future__ import annotations

import argparse
from math import prod
from pathlib import Path
from typing import Any, Final

from octopipe_cli.classic import ClassicRow, classic_rows
from octopipe_cli.cluster import Cluster
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, Request, parse_orders, plan_document, plan_from_document
from octopipe_cli.profile import Profile, load_profile
from octopipe_cli.search import make_plan
from octopipe_cli.search.record import plan_record
from octopipe_cli.search.relaxation import CertifiedBound
from tests.benchmarks.quality import ROWS
from tests.benchmarks.tables import milliseconds, plain_cluster, print_table

MODELS = Path(__file__).parents[2] / "profiles" / "models"

#: What is searched, and how the request says so.
CASES: Final[dict[str, dict[str, Any]]] = {
    "partition": {"keep": ("placement", "order")},
    "placement": {"keep": ("partition",), "backward": "fused"},
    "schedule": {"keep": ("partition", "placement")},
    "part.+place.": {"backward": "fused"},
    "part.+sched.": {"keep": ("placement",)},
    "place.+sched.": {"keep": ("partition",)},
    "all": {},
}


def baseline(profile: Loaded[Profile], cluster: Loaded[Cluster], num_microbatches: int) -> Loaded[Plan]:
    """Return the plan that all begin from."""
    rows = classic_rows(profile.value, cluster.value, num_microbatches, names=("1f1b", "interleaved-1f1b"))
    best: ClassicRow = min((row for row in rows if row.partition == "equal"), key=lambda row: row.step_time_ns)
    request, bound = Request(num_microbatches=num_microbatches), CertifiedBound(1, 1, "bounded", "load")
    plan = plan_record(profile, cluster, request, best.assignment, best.timeline, bound, rows, "effort")
    return plan_from_document(plan_document(plan), "baseline")


def suits(plan: Plan, begin: Plan, keep: tuple[str, ...] = (), backward: str = "split") -> bool:
    """Return whether a plan has the parts of the first one that are kept, and a backward in one piece if it must."""
    parts = {
        "partition": [[stage.layers for stage in p.stages] for p in (plan, begin)],
        "placement": [[stage.rank for stage in p.stages] for p in (plan, begin)],
        "order": [p.orders for p in (plan, begin)],
    }
    whole = not any(action.kind == "W" for actions in parse_orders(plan.orders) for action in actions)
    return all(parts[part][0] == parts[part][1] for part in keep) and (whole or backward == "split")


def step_time(plan: Loaded[Plan]) -> int:
    """Return a plan's step time in ns."""
    return plan.value.predicted.step_time_ns


def main() -> None:
    """Print the table: step times, and how many times as fast as the baseline."""
    parser = argparse.ArgumentParser(description="print the ablation")
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="quick")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="*", help="numbers of rows, from 1 (default: all)")
    options = parser.parse_args()
    table, factors = [], []
    for number in options.rows or range(1, len(ROWS) + 1):
        name, _, ranks, microbatches = ROWS[number - 1]
        profile, cluster = load_profile(str(MODELS / f"{name}.json")), plain_cluster(ranks)
        begin = baseline(profile, cluster, microbatches)
        found = [begin]
        for case in CASES.values():
            warm = min((plan for plan in found if suits(plan.value, begin.value, **case)), key=step_time)
            request = Request(num_microbatches=microbatches, effort=options.effort, warm_start=warm.digest, **case)
            plan = make_plan(profile, cluster, request, jobs=options.jobs, warm=warm)
            found.append(plan_from_document(plan_document(plan), "plan"))
        steps = [step_time(plan) for plan in found[1:]]
        first = step_time(begin)
        factors.append([first / step for step in steps])
        count = len(begin.value.stages) // ranks
        cells = [f"{first / step:.3f}" for step in steps]
        table.append((name, str(ranks), str(microbatches), str(count), milliseconds(first), *cells))
        print(name, *cells, flush=True)
    means = [prod(column) ** (1 / len(factors)) for column in zip(*factors, strict=True)]
    table.append(("geometric mean", "", "", "", "", *(f"{mean:.3f}" for mean in means)))
    print(f"effort {options.effort}; baseline in ms, then how many times as fast what is searched makes it")
    print_table(("profile", "P", "M", "stages/rank", "baseline", *CASES), table)


if __name__ == "__main__":
    main()
