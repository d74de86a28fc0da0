"""The bound on a partition whose ranks are short of memory is below all its schedules."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.list_scheduler import NEVER, ROOM, SLOT, new_scratch, schedule
from octopipe_cli.plan import Request
from octopipe_cli.profile import profile_from_document
from octopipe_cli.search.tables import NEEDED, build_tables, new_costs, price, quick_bound
from octopipe_cli.search.turns import turns_bound

from ..instances import random_instance

SEEDS = st.integers(0, 2**32)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_no_schedule_within_memory_beats_it(seed: int) -> None:
    _check(Random(seed))


def _check(rng: Random) -> tuple[int, int, int]:
    instance = random_instance(rng)
    profile = profile_from_document(instance.profile, "profile")
    cluster = cluster_from_document(instance.cluster, "cluster")
    n, m, num_ranks = instance.assignment.num_stages, instance.num_microbatches, cluster.num_ranks
    fuse = [rng.random() < 0.4 for _ in range(n)]
    assignment = instance.assignment
    arrays = [np.array(part, np.int64) for part in (assignment.cuts, assignment.ranks, assignment.recompute, fuse)]
    costs, step, memory = new_costs(n), np.zeros(num_ranks, np.int64), np.zeros((5, num_ranks), np.int64)
    tables = build_tables(profile, cluster, Request(num_microbatches=m))
    price(tables, *arrays, n, cluster.action_overhead_ns, costs, step, memory)
    for d in range(num_ranks):
        least = int(memory[SLOT, d] + memory[NEEDED, d])
        memory[ROOM, d] = least + rng.randint(0, max(1, rng.choice((1, 4)) * int(memory[NEEDED, d])))
    best = NEVER
    for _ in range(4):
        rule = (rng.choice((0, 10, 10**6)), rng.choice((0, 10, 10**7)), rng.choice((0, 10**5)))
        value = schedule(
            costs, n, num_ranks, m, step, memory, (cluster.p2p == "blocking", False), rule,
            np.zeros((2, 0, 0), np.int64), new_scratch(n, num_ranks, m), NEVER, np.zeros((0, 4), np.int64),
        )  # fmt: skip
        best = min(best, value)
    ranks, items = np.zeros((8, num_ranks), np.int64), np.zeros((4, 2 * n), np.int64)
    bound = int(turns_bound(costs, n, m, step, memory, ranks, items))
    assert bound <= best
    return bound, int(quick_bound(costs, n, m, step, False, np.zeros((5, num_ranks), np.int64))), best
