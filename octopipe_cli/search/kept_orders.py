"""Cuts for an order that is kept: every candidate is replayed, as for engines whose orders are settled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from octopipe_cli.cluster import Cluster
from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Orders, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.fixed_kernel import OVER, FixedBench, anneal_cuts, evaluate, new_fixed_bench
from octopipe_cli.search.fixed_orders import CHUNK, FIRST_HEAT, rows_of
from octopipe_cli.search.starts import even_cuts
from octopipe_cli.search.tables import build_tables
from octopipe_cli.search.tuner import Watch

RUNS: Final = 4


def cuts_for_order(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    kept: Assignment,
    orders: Orders,
    *,
    work: int,
    watch: Watch,
    jobs: int,
) -> Assignment | None:
    """Return the best cuts found for stages whose ranks and orders stay; None where none fit.

    Parameters
    ----------
    kept
        The partition to begin from; its ranks and marks stay.
    work
        Actions replayed, over all runs.
    """
    tables = build_tables(profile, cluster, request)
    rows = rows_of(orders)
    limited = cluster.limited
    settings = (cluster.action_overhead_ns, cluster.p2p == "blocking", request.objective == "span")
    no_mtp = (-1, 0, 0)
    each = int(tables.times[:3, :, -1].sum(axis=0).max()) * request.num_microbatches // cluster.num_ranks
    starts = [cuts for cuts in (kept.cuts, even_cuts(tables, kept.ranks)) if cuts is not None]

    def begun(run: int) -> FixedBench:
        seed = request.seed * 1009 + run
        bench = new_fixed_bench(rows, kept.ranks, request.num_microbatches, False, limited, seed)
        bench.recompute[:] = kept.recompute
        for cuts in starts:
            bench.trial[:] = cuts
            value = int(evaluate(tables, bench, bench.trial, *settings, no_mtp, NEVER))
            if value < bench.values[1] or not bench.best[-1]:
                bench.current[:] = bench.best[:] = cuts
                bench.values[:] = value
        return bench

    def search(run: int) -> tuple[int, tuple[int, ...]]:
        bench, share = begun(run), work // RUNS
        while len(kept.ranks) > 1 and bench.counts[0] < share and not watch.over():
            until = min(share, int(bench.counts[0]) + CHUNK)
            anneal_cuts(tables, bench, *settings, no_mtp, 1, until, share, FIRST_HEAT / (1 + run) * each)
            watch.done[run] = int(bench.counts[1])
        return int(bench.values[1]), tuple(bench.best.tolist())

    with ThreadPoolExecutor(jobs) as pool:
        value, cuts = min(pool.map(search, range(RUNS)))
    return Assignment(cuts, kept.ranks, kept.recompute) if value < OVER else None
