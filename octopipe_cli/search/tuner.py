"""The tuner: many annealing runs from many starts, in rounds, the best going on; the same result with any jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from octopipe_cli.cluster import Cluster
from octopipe_cli.list_scheduler import NEVER, Ints, orders_of_log, schedule
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Orders, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.anneal import WAYS, Bench, anneal, new_bench, try_rules, turns, use_order
from octopipe_cli.search.microbatch_orders import microbatch_orders
from octopipe_cli.search.moves import MOVE_COUNT, MOVE_FUSE, MOVE_ORDER, MOVE_RANKS, MOVE_RECOMPUTE, copy_candidate
from octopipe_cli.search.priorities import nudge_priorities
from octopipe_cli.search.starts import places_freely, priority_rules
from octopipe_cli.search.tables import Tables, build_tables, price, quick_bound

Result = TypeVar("Result")

CHUNK = 1_000_000  # work between two looks at the clock
LONG = 10_000  # actions of a step from which on short ones stand in for it


class Found(NamedTuple):
    """A partition and placement that was scheduled: value in ns by the request's objective, and how to get there.

    `extra`, where there is one, holds what is added to the rule's priorities, shape (2, stages, micro-batches);
    `order` is the order of the micro-batches where these differ.
    """

    value: int
    assignment: Assignment
    fused: tuple[bool, ...]
    rule: int
    extra: Ints | None = None
    order: tuple[int, ...] | None = None


@dataclass
class Watch:
    """What runs share: when to stop, and what has been done."""

    stop: threading.Event
    deadline: float | None
    done: dict[int, int] = field(default_factory=dict)
    best: int = NEVER

    def over(self) -> bool:
        """Return whether to stop now."""
        return self.stop.is_set() or (self.deadline is not None and time.monotonic() > self.deadline)

    @property
    def candidates(self) -> int:
        """How many candidates all runs have tried."""
        return sum(self.done.values())


class Tuner:
    """Searches one instance."""

    def __init__(self, profile: Profile, cluster: Cluster, request: Request, watch: Watch, jobs: int) -> None:
        self.tables: Tables = build_tables(profile, cluster, request)
        self.rules: Ints = priority_rules(self.tables)
        self.request = request
        self.watch = watch
        self.jobs = jobs
        self.num_ranks = cluster.num_ranks
        self.num_layers = profile.num_layers
        self.overhead = cluster.action_overhead_ns
        self.limited = cluster.limited
        self.modes = (cluster.p2p == "blocking", request.objective == "span")
        self.most_on_rank = request.max_stages_per_rank or self.num_layers
        self.allowed = self._allowed(profile)
        self.each = int(self.rules[:, 0].max() * 2 // 3) * request.num_microbatches  # one rank's even share of the work
        self._runs = 0
        self.full = request.num_microbatches
        self.orders_tried = microbatch_orders(profile, request)
        self.num_apart = 0 if self.tables.apart is None else self.full
        if len(self.orders_tried) > 1:
            self.allowed |= MOVE_ORDER
        # A long step repeats itself: fewer micro-batches are scheduled until the best partitions are known.
        actions = 3 * self.full * min(self.num_layers, 4 * self.num_ranks)
        self.scheduled = self.full if actions < LONG or self.num_apart else min(self.full, 2 * self.num_ranks)

    @property
    def long(self) -> bool:
        """Whether fewer micro-batches than there are stand in for them."""
        return self.scheduled < self.full

    def _allowed(self, profile: Profile) -> int:
        moves = MOVE_RANKS | MOVE_COUNT if places_freely(self.request) else 0
        if self.request.recompute == "auto" and self.limited:
            moves |= MOVE_RECOMPUTE
        apart = any(times.backward_ms is not None for kind in profile.kinds.values() for times in kind.times.values())
        if self.request.backward == "split" and (self.limited or self.overhead or apart):
            moves |= MOVE_FUSE
        return moves

    def first_look(
        self, starts: Sequence[Assignment], fused: Sequence[tuple[bool, ...] | None], work: int, first: int = 0
    ) -> list[Found]:
        """Return each start, scheduled with every rule, or as many rules as its share of the work is enough for.

        Parameters
        ----------
        first
            The rule that is tried first.
        """
        share = work // max(1, len(starts))

        def look(at: int) -> Found:
            bench = self._bench(starts[at], fused[at], 0, first)
            for j in sorted(range(len(self.rules)), key=lambda rule: rule != first):
                if j != first and (self.watch.over() or bench.counts[0] > share):
                    break
                for order in self.orders_tried:
                    bench.current.order[:] = order
                    self._try(bench, j)
            return self._found(bench)

        return self._all(look, len(starts))

    def _try(self, bench: Bench, rule: int) -> None:
        number = (self.scheduled, self.full - self.scheduled)
        try_rules(self.tables, *number, self.overhead, self.modes, self.rules, bench, rule, rule + 1)

    def round(self, entries: Sequence[Found], runs: int, work: int, heat: float, floor: int) -> list[Found]:
        """Return what annealing makes of each entry, `runs` times each, sharing the work evenly.

        Parameters
        ----------
        heat
            Temperature at the start, as a share of a rank's even share of all work.
        floor
            A value at which to stop: nothing better exists.
        """
        tasks = [(entry, run) for entry in entries for run in range(runs)]
        budget = work // max(1, len(tasks))
        self._runs += 1

        def run(at: int) -> Found:
            entry, number = tasks[at]
            seed = (self.request.seed * 1009 + self._runs) * 1009 + at * 31 + number
            bench = self._bench(entry.assignment, entry.fused, seed, entry.rule, entry.order)
            self._try(bench, entry.rule)
            bench.counts[:] = 0
            key = self._runs * 100_000 + at
            hot, way = heat * self.each, WAYS[(at + self._runs) % len(WAYS)]
            while bench.counts[0] < budget and bench.best.head[1] > floor and not self.watch.over():
                until = min(budget, bench.counts[0] + CHUNK)
                anneal(
                    self.tables, (self.scheduled, self.full - self.scheduled), self.overhead, self.modes, self.rules,
                    bench, self.allowed, self.most_on_rank, (until, budget), hot, floor, way, False,
                )  # fmt: skip
                self.watch.done[key] = int(bench.counts[1])
                self.watch.best = min(self.watch.best, int(bench.best.head[1]))
            found = self._found(bench)
            return found if found.value < entry.value else entry

        return self._all(run, len(tasks))

    def balanced(self, starts: Sequence[Assignment], work: int, heat: float) -> list[Assignment]:
        """Return each start with its ranks' loads evened out, by their bound alone; nothing is scheduled."""
        budget = work // max(1, len(starts))

        def run(at: int) -> Assignment:
            bench = self._bench(starts[at], None, self.request.seed * 1009 + at, 0)
            n, c = starts[at].num_stages, bench.current
            costs = (bench.costs, bench.step, bench.memory)
            price(self.tables, c.cuts, c.ranks, c.recompute, c.fuse, n, self.overhead, *costs)
            c.head[1] = quick_bound(bench.costs, n, self.full, bench.step, self.modes[1], bench.ranks)
            c.head[1] = max(c.head[1], turns(bench, n, self.full, self.modes[1], True))
            bench.ranks[4] = bench.ranks[0]
            copy_candidate(c, bench.best)
            anneal(
                self.tables, (self.full, 0), self.overhead, self.modes, self.rules, bench, self.allowed,
                self.most_on_rank, (budget, budget), heat * self.each, 0, WAYS[0], True,
            )  # fmt: skip
            return self._found(bench).assignment

        return self._all(run, len(starts))

    def lengthened(self, entries: Sequence[Found], work: int) -> list[Found]:
        """Return entries scheduled with all micro-batches; from now on everything is."""
        self.scheduled = self.full
        share = work // max(1, len(entries))
        return [self.first_look([entry.assignment], [entry.fused], share, entry.rule)[0] for entry in entries]

    def _all(self, task: Callable[[int], Result], count: int) -> list[Result]:
        if self.jobs == 1:
            return [task(at) for at in range(count)]
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(task, range(count)))

    def _bench(
        self,
        assignment: Assignment,
        fused: tuple[bool, ...] | None,
        seed: int,
        rule: int,
        order: tuple[int, ...] | None = None,
    ) -> Bench:
        most = min(self.num_layers, assignment.num_stages + 2 * self.num_ranks, self.most_on_rank * self.num_ranks)
        most = max(most, assignment.num_stages)
        bench = new_bench(most, self.num_ranks, self.full, self.limited, seed, self.num_apart)
        n, current = assignment.num_stages, bench.current
        current.cuts[: n + 1] = assignment.cuts
        current.ranks[:n] = assignment.ranks
        current.recompute[:n] = assignment.recompute
        current.fuse[:n] = (self.request.backward == "fused",) * n if fused is None else fused
        current.head[:] = (n, NEVER, rule)
        bench.best.head[:] = (0, NEVER, rule)
        if order is not None:
            current.order[:] = order
        return bench

    def _found(self, bench: Bench) -> Found:
        best = bench.best if bench.best.head[1] < NEVER else bench.current
        n = int(best.head[0])
        assignment = Assignment(
            tuple(best.cuts[: n + 1].tolist()),
            tuple(best.ranks[:n].tolist()),
            tuple(bool(mark) for mark in best.recompute[:n]),
        )
        order = tuple(best.order.tolist()) if self.num_apart else None
        fused = tuple(bool(mark) for mark in best.fuse[:n])
        return Found(int(best.head[1]), assignment, fused, int(best.head[2]), None, order)

    def reorder(self, entries: Sequence[Found], work: int, heat: float, floor: int) -> list[Found]:
        """Return each entry with better priorities of its single actions, sharing the work evenly."""
        budget = work // max(1, len(entries))
        self._runs += 1
        microbatches = self.request.num_microbatches

        def run(at: int) -> Found:
            entry = entries[at]
            bench, rule = self._priced(entry, self.request.seed * 1009 + self._runs * 31 + at)
            n = entry.assignment.num_stages
            least = max(floor, self.plan_bound(entry))
            bench.current.head[1] = bench.best.head[1] = entry.value
            extra = np.zeros((2, n, microbatches), np.int64) if entry.extra is None else entry.extra.copy()
            kept = extra.copy()
            key = self._runs * 100_000 + at
            while bench.counts[0] < budget and bench.best.head[1] > least and not self.watch.over():
                until = min(budget, bench.counts[0] + CHUNK)
                hot = heat * self.each
                nudge_priorities(bench, microbatches, self.modes, rule, extra, kept, until, budget, hot, least)
                self.watch.done[key] = int(bench.counts[1])
                self.watch.best = min(self.watch.best, int(bench.best.head[1]))
            value = int(bench.best.head[1])
            return entry._replace(value=value, extra=kept) if value < entry.value else entry

        return self._all(run, len(entries))

    def plan_bound(self, found: Found) -> int:
        """Return a lower bound, in ns of the objective, on any schedule of a partition and placement."""
        bench, _ = self._priced(found, 0)
        count = found.assignment.num_stages
        costs = (bench.costs, count, self.request.num_microbatches, bench.step, self.modes[1], bench.ranks)
        return int(quick_bound(*costs))

    def _priced(self, found: Found, seed: int) -> tuple[Bench, tuple[int, ...]]:
        """Return a bench that holds the costs of what was found, and its rule."""
        bench = self._bench(found.assignment, found.fused, seed, found.rule, found.order)
        use_order(bench.costs.apart, bench.current.order)
        n, c = found.assignment.num_stages, bench.current
        costs = (bench.costs, bench.step, bench.memory)
        price(self.tables, c.cuts, c.ranks, c.recompute, c.fuse, n, self.overhead, *costs)
        return bench, tuple(int(part) for part in self.rules[found.rule])

    def orders(self, found: Found) -> Orders:
        """Return the orders behind a value that was found."""
        bench, rule = self._priced(found, 0)
        n, microbatches = found.assignment.num_stages, self.request.num_microbatches
        log = np.zeros((3 * n * microbatches, 4), np.int64)
        extra = bench.no_extra if found.extra is None else found.extra
        value = schedule(
            bench.costs, n, self.num_ranks, microbatches, bench.step, bench.memory, self.modes, rule, extra,
            bench.scratch, NEVER, log,
        )  # fmt: skip
        assert value == found.value, "a schedule is not what it was"
        return orders_of_log(log, bench.costs, self.num_ranks)
