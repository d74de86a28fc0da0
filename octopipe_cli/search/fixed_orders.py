"""Partitions for engines whose orders are settled: 1F1B, or Megatron-LM's interleaved 1F1B with a group size.

The number of stages a rank, the group size, recomputation (of all stages or none) and the cuts are what there is to
choose; every candidate is replayed in the engine's own order.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.engines import engine_p2p
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, legal_group_size, one_f_one_b
from octopipe_cli.list_scheduler import BACKWARD, FORWARD, NEVER, WEIGHT, WHOLE, Ints
from octopipe_cli.pipeline import Assignment, Pipeline, build_pipeline
from octopipe_cli.plan import Engine, Orders, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.fixed_kernel import OVER, FixedBench, anneal_cuts, evaluate, new_fixed_bench
from octopipe_cli.search.keep import Keep
from octopipe_cli.search.starts import even_cuts
from octopipe_cli.search.tables import Tables, build_tables
from octopipe_cli.search.tuner import Watch
from octopipe_cli.simulate import Timeline, sequence_of, simulate

MOST_STAGES_PER_RANK: Final = 8
MOST_GROUP_SIZES: Final = 6
CHUNK: Final = 2_000_000
#: Rounds: share of the work; how many of the best orders go on after it, and with how many runs each.
ROUNDS: Final = ((0.3, 8, 1), (0.2, 3, 2), (0.5, 0, 0))
#: Temperature at the start, as a share of a rank's even share of all work.
FIRST_HEAT: Final = 0.01


class FixedOrder(NamedTuple):
    """One of an engine's orders: stages a rank, group size (0 for plain 1F1B), recomputation, who waits for sends."""

    stages_per_rank: int
    group_size: int
    recompute: bool
    p2p: P2P


class FixedFound(NamedTuple):
    """Cuts found for an order; value in ns by the request's objective."""

    value: int
    order: FixedOrder
    cuts: tuple[int, ...]


def fixed_orders(
    schedules: Sequence[tuple[str, P2P]],
    num_ranks: int,
    num_microbatches: int,
    num_layers: int,
    most: int | None,
    recompute: Sequence[bool],
) -> list[FixedOrder]:
    """Return the orders an engine can run on so many ranks with so many micro-batches."""
    p2p = dict(schedules)
    found = [FixedOrder(1, 0, again, p2p["1f1b"]) for again in recompute]
    limit = min(most or MOST_STAGES_PER_RANK, MOST_STAGES_PER_RANK) if "interleaved-1f1b" in p2p else 1
    sizes = [
        size for size in range(num_ranks, num_microbatches + 1) if legal_group_size(size, num_ranks, num_microbatches)
    ]
    if len(sizes) > MOST_GROUP_SIZES:  # the smallest ones, and some larger ones
        rest = sizes[3:]
        sizes = sizes[:3] + [rest[(len(rest) - 1) * i // (MOST_GROUP_SIZES - 4)] for i in range(MOST_GROUP_SIZES - 3)]
    for v in range(2, limit + 1):
        if num_ranks > 1 and v * num_ranks <= num_layers:
            found += [FixedOrder(v, n, again, p2p["interleaved-1f1b"]) for n in sizes for again in recompute]
    return found


def fixed_schedules(engine: Engine, cluster: Cluster) -> list[tuple[str, P2P]]:
    """Return the names of an engine's schedules, and whether their transfers overlap computation."""
    names = [("1f1b", 1)] if engine == "deepspeed" else [("1f1b", 1), ("interleaved-1f1b", 2)]
    return [(name, engine_p2p(engine, stages_per_rank, cluster.p2p)) for name, stages_per_rank in names]


def orders_of(order: FixedOrder, num_ranks: int, num_microbatches: int) -> Orders:
    """Return what each rank runs, in its order."""
    if order.stages_per_rank == 1:
        return one_f_one_b(num_ranks, num_microbatches)
    return interleaved_1f1b(num_ranks, num_microbatches, order.stages_per_rank, order.group_size)


def rows_of(orders: Orders) -> Ints:
    """Return all actions of orders, shape (actions, 3): stage, kind (row of `StageCosts.times`), micro-batch."""
    kinds = {"F": FORWARD, "I": BACKWARD, "W": WEIGHT, "B": WHOLE}
    return np.array([(stage, kinds[kind], m) for stage, kind, m in sequence_of(orders)], np.int64)


class FixedSearch:
    """Searches the cuts for every order an engine has."""

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        request: Request,
        watch: Watch,
        jobs: int,
        known: Sequence[Assignment] = (),
    ) -> None:
        self.known = known
        self.profile, self.cluster, self.request, self.watch, self.jobs = profile, cluster, request, watch, jobs
        self.tables: Tables = _with_whole_roles(build_tables(profile, cluster, request), profile)
        self.limited = cluster.limited
        again = {"none": (False,), "full": (True,), "auto": (False, True) if self.limited else (False,)}
        self.orders = fixed_orders(
            fixed_schedules(request.engine, cluster), cluster.num_ranks, request.num_microbatches, profile.num_layers,
            request.max_stages_per_rank, again[request.recompute],
        )  # fmt: skip
        self._rounds = 0
        self.settled: tuple[int, ...] | None = None
        self.least = 0 if request.engine.startswith("megatron") else 1
        shapes = dict.fromkeys((order.stages_per_rank, order.group_size) for order in self.orders)
        self.sequences = {
            (v, size): rows_of(
                orders_of(FixedOrder(v, size, False, "blocking"), cluster.num_ranks, request.num_microbatches)
            )
            for v, size in shapes
        }

    def keep(self, keep: Keep) -> None:
        """Leave the orders, and with a kept partition the cuts, that have what is held fixed of a plan."""
        assert keep.given is not None
        kept, number = keep.given.assignment, self.request.num_microbatches
        if keep.partition:
            self.settled = kept.cuts
        ranks = self.cluster.num_ranks
        if keep.partition or keep.placement:
            self.orders = [order for order in self.orders if order.stages_per_rank * ranks == kept.num_stages]
        if keep.order:
            self.orders = [order for order in self.orders if orders_of(order, ranks, number) == keep.given.orders]

    def best(self, work: int) -> tuple[Assignment, Timeline] | None:
        """Return the best partition and its timeline for so much work (actions replayed); None where none fits."""
        found = self.search(work)
        if not found:
            return None
        assignment, timeline = self.timeline(found[0])
        assert timeline.fits, "the replay left a rank's memory"
        return assignment, timeline

    def keeps(self, assignment: Assignment) -> bool:
        """Return whether an assignment made elsewhere keeps what the engine asks of cuts."""
        order = FixedOrder(assignment.num_stages // self.cluster.num_ranks, 0, False, "blocking")
        first, least, last = self._mtp(order)
        stage = sum(cut <= first for cut in assignment.cuts) - 1
        whole = all(self.tables.legal[cut] for cut in assignment.cuts)
        return whole and (first < 0 or least <= stage <= last)

    def search(self, work: int) -> list[FixedFound]:
        """Return the best cuts of the best orders, the best first."""
        found: list[FixedFound] = []
        tasks: list[tuple[FixedOrder, tuple[int, ...] | None, int]] = [(order, None, 0) for order in self.orders]
        for share, keep, runs in ROUNDS:
            each = int(work * share) // max(1, len(tasks))
            found = _best(found + self._all([(*task, each) for task in tasks]))
            tasks = [(entry.order, entry.cuts, 1 + run) for entry in found[:keep] for run in range(runs)]
        return found

    def timeline(self, found: FixedFound) -> tuple[Assignment, Timeline]:
        """Return what was found, exactly as the simulator has it."""
        assignment = self._assignment(found.order, found.cuts)
        pipeline = self._pipeline(found.order, assignment)
        orders = orders_of(found.order, self.cluster.num_ranks, self.request.num_microbatches)
        return assignment, simulate(pipeline, orders)

    def replays(self, assignment: Assignment) -> list[tuple[Assignment, Timeline]]:
        """Return the timelines of an assignment's cuts in each of the engine's orders for so many stages."""
        if not self.keeps(assignment):
            return []
        fitting = [
            order for order in self.orders if order.stages_per_rank * self.cluster.num_ranks == assignment.num_stages
        ]
        made = [self.timeline(FixedFound(0, order, assignment.cuts)) for order in fitting]
        return [plan for plan in made if plan[1].fits]

    def _ranks(self, order: FixedOrder) -> tuple[int, ...]:
        """Return the rank of each stage: in a circle."""
        return tuple(range(self.cluster.num_ranks)) * order.stages_per_rank

    def _assignment(self, order: FixedOrder, cuts: tuple[int, ...]) -> Assignment:
        ranks = self._ranks(order)
        return Assignment(cuts, ranks, (order.recompute,) * len(ranks))

    def _pipeline(self, order: FixedOrder, assignment: Assignment) -> Pipeline:
        return build_pipeline(self.profile, self.cluster, assignment, self.request.num_microbatches, order.p2p)

    def _all(self, tasks: Sequence[tuple[FixedOrder, tuple[int, ...] | None, int, int]]) -> list[FixedFound]:
        self._rounds += 1
        with ThreadPoolExecutor(self.jobs) as pool:
            found = list(pool.map(lambda at: self._run(1000 * self._rounds + at, *tasks[at]), range(len(tasks))))
        return [entry for entry in found if entry is not None]

    def _run(self, key: int, order: FixedOrder, cuts: tuple[int, ...] | None, run: int, work: int) -> FixedFound | None:
        bench = self._bench(order, run)
        arguments = (self.cluster.action_overhead_ns, order.p2p == "blocking", self.request.objective == "span")
        mtp = self._mtp(order)
        for start in self._starts(order) if cuts is None else [cuts]:
            bench.trial[:] = start
            value = int(evaluate(self.tables, bench, bench.trial, *arguments, mtp, NEVER))
            if value < bench.values[1] or not bench.best[-1]:
                for which, target in enumerate((bench.current, bench.best)):
                    target[:] = start
                    bench.values[which] = value
        if not bench.best[-1]:
            return None
        each = int(self.tables.times[:3, :, -1].sum(axis=0).max()) * self.request.num_microbatches
        hot = FIRST_HEAT / (1 + run) * each / self.cluster.num_ranks
        while self.settled is None and len(bench.ranks) > 1 and bench.counts[0] < work and not self.watch.over():
            until = min(work, int(bench.counts[0]) + CHUNK)
            anneal_cuts(self.tables, bench, *arguments, mtp, self.least, until, work, hot)
            self.watch.done[key] = int(bench.counts[1])
            self.watch.best = min(self.watch.best, _time_or_never(int(bench.values[1])))
        value = int(bench.values[1])
        return FixedFound(value, order, tuple(bench.best.tolist())) if value < OVER else None

    def _bench(self, order: FixedOrder, run: int) -> FixedBench:
        seed = (self.request.seed * 1009 + order.stages_per_rank * 31 + order.group_size) * 1009 + run
        return new_fixed_bench(
            self.sequences[order.stages_per_rank, order.group_size],
            self._ranks(order),
            self.request.num_microbatches,
            order.recompute,
            self.limited,
            seed,
        )

    def _starts(self, order: FixedOrder) -> list[tuple[int, ...]]:
        """Return cuts to begin at: even in time, even in number, and those that are known."""
        if self.settled is not None:
            return [self.settled]
        ranks = self._ranks(order)
        even = even_cuts(self.tables, ranks)
        if even is None:
            return []
        legal = [c for c in range(self.profile.num_layers + 1) if self.tables.legal[c]]
        equal = tuple(legal[round((len(legal) - 1) * s / len(ranks))] for s in range(len(ranks) + 1))
        return [even, equal, *(a.cuts for a in self.known if a.num_stages == len(ranks) and self.keeps(a))]

    def _mtp(self, order: FixedOrder) -> tuple[int, int, int]:
        """Return the first MTP layer and which stages may hold it; -1 where there is none.

        Megatron-LM: in the last chunk of a rank but the first; a hybrid model has it on the last stage.
        """
        roles = [self.profile.kind_of(layer).role for layer in range(self.profile.num_layers)]
        if "mtp" not in roles or not self.request.engine.startswith("megatron"):
            return -1, 0, 0
        ranks, stages = self.cluster.num_ranks, self.cluster.num_ranks * order.stages_per_rank
        least = stages - 1 if self.request.engine == "megatron-hybrid" else stages - ranks + (ranks > 1)
        return roles.index("mtp"), least, stages - 1


def _time_or_never(value: int) -> int:
    return value if value < OVER else NEVER


def _best(found: list[FixedFound]) -> list[FixedFound]:
    """Return the best entry of each order, the best first."""
    best: dict[FixedOrder, FixedFound] = {}
    for entry in sorted(found, key=lambda entry: entry.value):
        best.setdefault(entry.order, entry)
    return list(best.values())


def _with_whole_roles(tables: Tables, profile: Profile) -> Tables:
    """Return tables without the cuts inside an embedding, a head, or a model's MTP layers: engines keep them whole."""
    legal = tables.legal.copy()
    roles = [profile.kind_of(layer).role for layer in range(profile.num_layers)]
    for cut in range(1, len(roles)):
        if roles[cut] == roles[cut - 1] != "decoder":
            legal[cut] = 0
    return tables._replace(legal=legal)
