"""The search for one plan for many sets of lengths: partitions and orders judged by replays of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypeVar

import numpy as np

from octopipe_cli.cluster import Cluster
from octopipe_cli.length_sets import LengthLists
from octopipe_cli.lengths import MicroBatch, lengths_of
from octopipe_cli.list_scheduler import BACKWARD, FORWARD, NEVER, WEIGHT, Ints, schedule
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Action, ActionKind, Orders, Request, Robust
from octopipe_cli.profile import Profile
from octopipe_cli.search.anneal import Bench, new_bench
from octopipe_cli.search.fixed_kernel import OVER
from octopipe_cli.search.fixed_orders import rows_of
from octopipe_cli.search.robust_kernel import (
    MEAN,
    P95,
    WORST,
    Sets,
    anneal_sets,
    better_sequence,
    new_sets,
    replay_sets,
    sequence_of_log,
    try_sets,
)
from octopipe_cli.search.tables import build_tables, price
from octopipe_cli.search.tuner import Found, Tuner

WHICH: Final[dict[Robust, int]] = {"mean": MEAN, "p95": P95, "worst": WORST}
#: Rounds over partitions: share of the work, how many go on from the one before, and with how many runs each.
ROUNDS: Final = ((0.15, 12, 1), (0.25, 4, 2), (0.3, 2, 3))
#: The rest is for orders of the best partitions, in runs.
ORDERED: Final = 4
#: Temperatures at the start, as shares of a rank's even share of all work.
HEAT, ORDER_HEAT = 0.003, 0.0015
CHUNK: Final = 2_000_000

Item = TypeVar("Item")
Result = TypeVar("Result")


class Sturdy(NamedTuple):
    """A partition and orders that bear many sets; value in ns of what is searched by (`summed_up`)."""

    value: int
    assignment: Assignment
    fused: tuple[bool, ...]
    sequence: Ints


class RobustSearch:
    """Searches plans for many sets; `tuner` is that of equal micro-batches.

    Parameters
    ----------
    sets
        The sets to find with.
    """

    def __init__(
        self, profile: Profile, cluster: Cluster, request: Request, sets: Sequence[LengthLists], tuner: Tuner
    ) -> None:
        assert request.robust is not None
        self.number, self.seed = request.num_microbatches, request.seed
        self.which, self.tuner = WHICH[request.robust], tuner
        self.num_sets = len(sets)
        self.tables = build_tables(profile, cluster, request, _microbatches(profile, sets, self.number))
        self._runs = 0

    def best(self, given: Sequence[tuple[Assignment, Orders]], found: Sequence[Found], work: int) -> list[Sturdy]:
        """Return plans, the best first.

        Parameters
        ----------
        given
            Plans there are, judged as they stand.
        found
            Partitions to begin from.
        work
            About how many actions are scheduled; replays count an eighth.
        """
        plans = [self._judged(assignment, orders) for assignment, orders in given]
        entries = self._all(lambda entry: self._looked(entry, int(work * 0.1 / max(1, len(found)))), list(found))
        for share, keep, runs in ROUNDS:
            entries = _best(entries)
            tasks = [(entry, run) for entry in entries[:keep] for run in range(runs)]
            each = int(work * share) // max(1, len(tasks))
            self._runs += 1

            def run(at: int, tasks: list[tuple[Found, int]] = tasks, each: int = each) -> Found:
                return self._annealed(at, *tasks[at], each)

            entries += self._all(run, range(len(tasks)))
        plans += [self._sequenced(entry) for entry in _best(entries)[:ORDERED]]
        plans = sorted(plans, key=lambda plan: plan.value)[:ORDERED]
        each = int(work * 0.2) // ORDERED
        plans += self._all(lambda task: self._ordered(task[1], task[0], each), list(enumerate(plans)))
        return sorted((plan for plan in plans if plan.value < OVER), key=lambda plan: plan.value)

    def orders(self, plan: Sturdy) -> Orders:
        """Return the orders of a plan."""
        orders: list[list[Action]] = [[] for _ in range(self.tuner.num_ranks)]
        letters: dict[int, ActionKind] = {FORWARD: "F", BACKWARD: "I", WEIGHT: "W"}
        for stage, kind, microbatch in plan.sequence.tolist():
            orders[plan.assignment.ranks[stage]].append(Action(stage, letters.get(kind, "B"), microbatch))
        return tuple(map(tuple, orders))

    def _benches(self, entry: Found, seed: int) -> tuple[Bench, Sets]:
        tuner = self.tuner
        n = entry.assignment.num_stages
        most = max(n, min(tuner.num_layers, n + 2 * tuner.num_ranks, tuner.most_on_rank * tuner.num_ranks))
        bench = new_bench(most, tuner.num_ranks, self.number, tuner.limited, seed)
        current = bench.current
        current.cuts[: n + 1] = entry.assignment.cuts
        current.ranks[:n] = entry.assignment.ranks
        current.recompute[:n] = entry.assignment.recompute
        current.fuse[:n] = entry.fused
        current.head[:] = (n, NEVER, entry.rule)
        bench.best.head[:] = (0, NEVER, entry.rule)
        return bench, new_sets(most, tuner.num_ranks, self.number, self.num_sets, tuner.limited)

    def _looked(self, entry: Found, work: int) -> Found:
        """Return a partition with the rule that serves the sets best, as many being tried as the work is enough for."""
        bench, sets = self._benches(entry, 0)
        for j in sorted(range(len(self.tuner.rules)), key=lambda rule: rule != entry.rule):
            if j != entry.rule and (self.tuner.watch.over() or bench.counts[0] > work):
                break
            self._try(bench, sets, j)
        return self._found(bench, entry)

    def _try(self, bench: Bench, sets: Sets, rule: int) -> None:
        tuner = self.tuner
        arguments = (self.tables, self.number, tuner.overhead, tuner.modes, tuner.rules, bench, sets, self.which)
        try_sets(*arguments, rule, rule + 1)

    def _annealed(self, at: int, entry: Found, run: int, work: int) -> Found:
        """Return what annealing makes of a partition."""
        tuner = self.tuner
        bench, sets = self._benches(entry, (self.seed * 1013 + self._runs) * 1009 + at * 31 + run)
        self._try(bench, sets, entry.rule)
        bench.counts[:] = 0
        key = 10_000_000 + self._runs * 100_000 + at
        while bench.counts[0] < work and not tuner.watch.over():
            until = min(work, int(bench.counts[0]) + CHUNK)
            anneal_sets(
                self.tables, self.number, tuner.overhead, tuner.modes, tuner.rules, bench, sets, self.which,
                tuner.allowed, tuner.most_on_rank, (until, work), HEAT / self._runs * tuner.each,
            )  # fmt: skip
            tuner.watch.done[key] = int(bench.counts[1])
        return self._found(bench, entry)

    def _found(self, bench: Bench, entry: Found) -> Found:
        best = bench.best
        if best.head[1] >= NEVER:
            return entry._replace(value=NEVER)
        n = int(best.head[0])
        marks = tuple(map(bool, best.recompute[:n].tolist()))
        assignment = Assignment(tuple(best.cuts[: n + 1].tolist()), tuple(best.ranks[:n].tolist()), marks)
        return Found(int(best.head[1]), assignment, tuple(map(bool, best.fuse[:n].tolist())), int(best.head[2]))

    def _priced(self, bench: Bench, sets: Sets) -> int:
        n, c = int(bench.current.head[0]), bench.current
        marks = (c.cuts, c.ranks, c.recompute, c.fuse)
        price(self.tables, *marks, n, self.tuner.overhead, bench.costs, bench.step, bench.memory)
        price(self.tables, *marks, n, self.tuner.overhead, sets.costs, bench.step, sets.memory)
        return n

    def _sequenced(self, entry: Found) -> Sturdy:
        """Return a partition with its sequence of actions."""
        bench, sets = self._benches(entry, 0)
        n = self._priced(bench, sets)
        rule = tuple(int(part) for part in self.tuner.rules[entry.rule])
        schedule(
            bench.costs, n, self.tuner.num_ranks, self.number, bench.step, bench.memory, self.tuner.modes, rule,
            bench.no_extra, bench.scratch, NEVER, sets.log,
        )  # fmt: skip
        sequence = sequence_of_log(sets.log, bench.costs, int(bench.scratch.tree[0]), sets.sequence).copy()
        return Sturdy(entry.value, entry.assignment, entry.fused, sequence)

    def _judged(self, assignment: Assignment, orders: Orders) -> Sturdy:
        """Return a plan there is, with its value."""
        whole = {action.stage for actions in orders for action in actions if action.kind == "B"}
        split = {action.stage for actions in orders for action in actions if action.kind == "I"}
        fused = tuple(stage in whole - split for stage in range(assignment.num_stages))
        plan = Sturdy(OVER, assignment, fused, rows_of(orders))
        return plan._replace(value=self._value(plan)[0])

    def _value(self, plan: Sturdy) -> tuple[int, Bench, Sets]:
        bench, sets = self._benches(Found(0, plan.assignment, plan.fused, 0), 0)
        n = self._priced(bench, sets)
        value = replay_sets(plan.sequence, sets, n, bench.step, self.tuner.modes, self.which, self.number)
        return int(value), bench, sets

    def _ordered(self, plan: Sturdy, at: int, work: int) -> Sturdy:
        """Return a plan with a better order of its actions."""
        value, bench, sets = self._value(plan)
        n = plan.assignment.num_stages
        random = np.array([(self.seed * 2654435761 + at * 7919 + 88172645463325252) % (1 << 62) + 1], np.int64)
        sequence, best = plan.sequence.copy(), plan.sequence.copy()
        values = np.array([value, value], np.int64)
        hot, spent, whole = ORDER_HEAT * self.tuner.each, 0, max(work, 1)
        while spent < work and not self.tuner.watch.over():
            part = min(CHUNK, work - spent)
            better_sequence(
                sequence, best, values, bench.costs, sets, n, bench.step, bench.memory, self.tuner.modes, self.which,
                self.number, random, part, hot * (1 - spent / whole),
            )  # fmt: skip
            spent += part
        return plan._replace(value=int(values[1]), sequence=best)

    def _all(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        if self.tuner.jobs == 1:
            return [task(item) for item in items]
        with ThreadPoolExecutor(self.tuner.jobs) as pool:
            return list(pool.map(task, items))


def _microbatches(profile: Profile, sets: Sequence[LengthLists], number: int) -> list[MicroBatch]:
    """Return the micro-batches of all sets, one set after another."""
    found: list[MicroBatch] = []
    for lists in sets:
        lengths = lengths_of(profile, lists, number)
        found += [{}] * number if lengths is None else lengths.microbatches
    return found


def _best(found: Sequence[Found]) -> list[Found]:
    """Return entries that fit, the best first, each assignment once."""
    best: dict[Assignment, Found] = {}
    for entry in sorted((e for e in found if e.value < OVER), key=lambda e: e.value):
        best.setdefault(entry.assignment, entry)
    return list(best.values())
