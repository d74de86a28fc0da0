"""Local search over partition and placement, compiled: every candidate is scheduled before it is judged.

The paper's tuner moves, splits and swaps stages by the bubbles it measures. Here the measure is the schedule itself:
a candidate whose bound is above the acceptance threshold is dropped unscheduled (most are), the others are scheduled
with the incumbent's priority rule and two drawn ones, each cut off as soon as it must end above the threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import Ints, Scratch, StageCosts, new_scratch, schedule
from octopipe_cli.search.moves import (
    DROPPED_WORK,
    MOVE_ORDER,
    Candidate,
    copy_candidate,
    draw,
    new_candidate,
    patience,
    propose,
    same,
)
from octopipe_cli.search.tables import new_costs, price, quick_bound, shares_ranks
from octopipe_cli.search.turns import flow_bound, turns_bound

SCHEDULES_TRIED = 3
#: Ways to go about it, as (exchanges, evenness), in per cent. So many of the moves are exchanges. What ranks' own
#: bounds are away from their mean on the average counts so much of the step time: where one rank decides, moves between
#: the others still go the right way. Neither way is the better one on all models: runs take turns.
WAYS = ((25, 25), (0, 0))


class Bench(NamedTuple):
    """What one search works with: its incumbent, its best, the trial, and scratch."""

    current: Candidate
    best: Candidate
    trial: Candidate
    costs: StageCosts
    step: Ints
    memory: Ints | None
    scratch: Scratch
    turns: Ints  # (8, ranks): scratch for the bound under memory limits
    items: Ints  # (4, 2 x stages): the same
    ranks: Ints  # (5, ranks): scratch for the bound; in the last row each rank's own bound for the incumbent
    no_extra: Ints
    no_log: Ints
    random: Ints  # (1,), the generator's state
    counts: Ints  # (4,): work done, candidates, scheduled, accepted


def new_bench(
    num_stages: int, num_ranks: int, num_microbatches: int, limited: bool, seed: int, num_apart: int = 0
) -> Bench:
    """Return a bench for up to that many stages; `num_apart` micro-batches where these differ."""
    return Bench(
        new_candidate(num_stages, num_apart),
        new_candidate(num_stages, num_apart),
        new_candidate(num_stages, num_apart),
        new_costs(num_stages, num_apart),
        np.zeros(num_ranks, np.int64),
        np.zeros((5, num_ranks), np.int64) if limited else None,
        new_scratch(num_stages, num_ranks, num_microbatches),
        np.zeros((8, num_ranks), np.int64),
        np.zeros((4, 2 * num_stages), np.int64),
        np.zeros((5, num_ranks + 1), np.int64),
        np.zeros((2, 0, 0), np.int64),
        np.zeros((0, 4), np.int64),
        np.array([(seed * 2654435761 + 88172645463325252) % (1 << 62) + 1], np.int64),
        np.zeros(4, np.int64),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _exchange_microbatches(apart, order, free, random):  # type: ignore[no-untyped-def]
    """Where micro-batches differ and may take other places, let two change theirs, now and then."""
    if apart is not None and free and draw(random, 6) == 0:
        number = order.shape[0]
        i, j = draw(random, number), draw(random, number)
        order[i], order[j] = order[j], order[i]


@njit(cache=True, nogil=True, error_model="numpy")
def use_order(apart, order):  # type: ignore[no-untyped-def]
    """Have costs written for the micro-batches in an order, where they differ."""
    if apart is not None:
        for m in range(order.shape[0]):
            apart.order[m] = order[m]


@njit(cache=True, nogil=True, error_model="numpy")
def _pace(scratch):  # type: ignore[no-untyped-def]
    """Return what one micro-batch costs the busiest rank, from what `quick_bound` leaves behind."""
    most = np.int64(0)
    for d in range(scratch.shape[1] - 1):
        most = max(most, scratch[2, d] + scratch[3, d])
    return most


@njit(cache=True, nogil=True, error_model="numpy")
def _turns(memory, apart, bench, n, number, by_span, blind):  # type: ignore[no-untyped-def]
    """Return what the turns of the step say of the priced candidate; see `turns`."""
    if apart is not None:
        return np.int64(0)
    if by_span:
        return np.int64(0)
    least = flow_bound(bench.costs, n, number, bench.step, bench.turns[0]) if blind else np.int64(0)
    if memory is not None:
        least = max(least, turns_bound(bench.costs, n, number, bench.step, memory, bench.turns, bench.items))
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def turns(bench, n, number, by_span, blind):  # type: ignore[no-untyped-def]
    """Return a lower bound in ns that sees the turns of the step, dearer than `quick_bound`; 0 where it has none.

    Without a schedule (`blind`) it sees the flow through the ranks as well, which schedules mostly find out as soon.
    """
    return _turns(bench.memory, bench.costs.apart, bench, n, number, by_span, blind)


@njit(cache=True, nogil=True, error_model="numpy")
def _spread(own):  # type: ignore[no-untyped-def]
    """Return how far ranks' own bounds are from their mean, on the average."""
    num_ranks = own.shape[0] - 1
    total = np.int64(0)
    for d in range(num_ranks):
        total += own[d]
    mean = total // num_ranks
    away = np.int64(0)
    for d in range(num_ranks):
        away += abs(own[d] - mean)
    return away // num_ranks


@njit(cache=True, nogil=True, error_model="numpy")
def try_rules(tables, num_microbatches, more, overhead, modes, rules, bench, first, last):  # type: ignore[no-untyped-def]
    """Schedule the current candidate with the rules first .. last - 1; note value and rule of the best.

    `more`: micro-batches that are not scheduled but follow at the pace of the busiest rank.
    """
    current = bench.current
    n = current.head[0]
    num_ranks = bench.step.shape[0]
    costs, step, memory, scratch = bench.costs, bench.step, bench.memory, bench.scratch
    if tables.together.shape[0] > 0 and not shares_ranks(tables, current.cuts, current.ranks, n):
        return
    use_order(costs.apart, current.order)
    if not price(
        tables, current.cuts, current.ranks, current.recompute, current.fuse, n, overhead, costs, step, memory
    ):
        return
    stretch = np.int64(0)
    if more > 0:
        quick_bound(costs, n, num_microbatches, step, modes[1], bench.ranks)
        stretch = more * _pace(bench.ranks)
    for j in range(first, last):
        rule = (rules[j, 0], rules[j, 1], rules[j, 2])
        value = stretch + schedule(
            costs, n, num_ranks, num_microbatches, step, memory, modes, rule, bench.no_extra, scratch,
            current.head[1] - 1 - stretch, bench.no_log,
        )  # fmt: skip
        bench.counts[0] += scratch.tree[0] + DROPPED_WORK
        if value < current.head[1]:
            current.head[1] = value
            current.head[2] = j
    bench.counts[1] += 1
    if current.head[1] < bench.best.head[1]:
        copy_candidate(current, bench.best)


@njit(cache=True, nogil=True, error_model="numpy")
def anneal(tables, number, overhead, modes, rules, bench, allowed, most_on_rank, work, hot, floor, way, blind):  # type: ignore[no-untyped-def]
    """Go on annealing until the work is done, or a value at or below `floor` is found.

    Parameters
    ----------
    number
        Micro-batches that are scheduled, and others that follow at the pace of the busiest rank.
    modes, rules
        As for `schedule`; rules has shape (rules, 3).
    allowed
        Bits MOVE_...: what may be changed besides cuts.
    most_on_rank
        Most stages a rank may have.
    work
        Up to where to go this time, and the whole budget, in scheduled actions.
    hot
        Temperature at the start, in ns; it falls linearly to nothing.
    way
        One of `WAYS`.
    blind
        Whether the bound stands in for the schedule: what is found is well balanced, and soon.
    """
    num_microbatches, more = number
    until, budget = work
    exchanges, evenness = way
    num_ranks = bench.step.shape[0]
    current, best, trial = bench.current, bench.best, bench.trial
    costs, step, memory, scratch, random, counts = (
        bench.costs, bench.step, bench.memory, bench.scratch, bench.random, bench.counts,
    )  # fmt: skip
    by_span = modes[1]
    while counts[0] < until and best.head[1] > floor:
        temperature = hot * (1.0 - counts[0] / budget)
        if not propose(tables, bench, allowed, most_on_rank, exchanges):
            continue
        n = trial.head[0]
        _exchange_microbatches(costs.apart, trial.order, allowed & MOVE_ORDER, random)
        if same(trial, current):
            continue
        use_order(costs.apart, trial.order)
        if not price(tables, trial.cuts, trial.ranks, trial.recompute, trial.fuse, n, overhead, costs, step, memory):
            continue
        least = quick_bound(costs, n, num_microbatches + more, step, by_span, bench.ranks)
        stretch = more * _pace(bench.ranks)
        spread = _spread(bench.ranks[0])
        uneven = evenness * (bench.ranks[4, num_ranks] - spread) // 100
        threshold = current.head[1] + patience(random, temperature) + uneven
        if least > threshold:
            continue
        least = max(least, turns(bench, n, num_microbatches + more, by_span, blind))
        if least > threshold:
            continue
        value = least if blind else threshold + 1
        trial.head[1] = value
        for attempt in range(0 if blind else SCHEDULES_TRIED):
            j = current.head[2] if attempt == 0 else draw(random, rules.shape[0])
            rule = (rules[j, 0], rules[j, 1], rules[j, 2])
            found = stretch + schedule(
                costs, n, num_ranks, num_microbatches, step, memory, modes, rule, bench.no_extra, scratch,
                value - 1 - stretch, bench.no_log,
            )  # fmt: skip
            counts[0] += scratch.tree[0]
            if found < value:
                value = found
                trial.head[1] = value
                trial.head[2] = j
                if value <= least:
                    break
        counts[2] += 1
        if value <= threshold:
            counts[3] += 1
            copy_candidate(trial, current)
            bench.ranks[4, :num_ranks] = bench.ranks[0, :num_ranks]
            bench.ranks[4, num_ranks] = spread
            if value < best.head[1]:
                copy_candidate(trial, best)
