"""Local search over partition and placement, compiled: every candidate is scheduled before it is judged.

The paper's tuner moves, splits and swaps stages by the bubbles it measures. Here the measure is the schedule itself:
a candidate whose bound is above the acceptance threshold is dropped unscheduled (most are), the others are scheduled
with the incumbent's priority rule and two drawn ones, each cut off as soon as it must end above the threshold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import NEVER, Ints, Scratch, StageCosts, new_scratch, schedule
from octopipe_cli.search.tables import KIND, new_costs, price, quick_bound, shares_ranks
from octopipe_cli.search.turns import flow_bound, turns_bound

#: What a search may change.
MOVE_RANKS, MOVE_COUNT, MOVE_RECOMPUTE, MOVE_FUSE, MOVE_ORDER = 1, 2, 4, 8, 16

SCHEDULES_TRIED = 3
#: Ways to go about it, as (exchanges, evenness), in per cent. So many of the moves are exchanges. What ranks' own
#: bounds are away from their mean on the average counts so much of the step time: where one rank decides, moves between
#: the others still go the right way. Neither way is the better one on all models: runs take turns.
WAYS = ((25, 25), (0, 0))
DROPPED_WORK = 24  # what a candidate costs besides its scheduled actions, in actions


class Candidate(NamedTuple):
    """A partition and placement; `head` is (number of stages, value in ns, priority rule).

    `order` is the order of the micro-batches where these differ, else empty.
    """

    cuts: Ints
    ranks: Ints
    recompute: Ints
    fuse: Ints
    head: Ints
    order: Ints


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


def new_candidate(num_stages: int, num_apart: int = 0) -> Candidate:
    """Return an empty candidate for up to that many stages, and micro-batches where these differ."""
    cuts, ranks = np.zeros(num_stages + 1, np.int64), np.zeros(num_stages, np.int64)
    return Candidate(cuts, ranks, ranks.copy(), ranks.copy(), np.array([0, NEVER, 0], np.int64), np.arange(num_apart))


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
def draw(state, below):  # type: ignore[no-untyped-def]
    """Return a random integer from 0 to below - 1 (xorshift64*; the same on every machine)."""
    x = np.uint64(state[0])
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = np.int64(x)
    return np.int64(((x * np.uint64(2685821657736338717)) >> np.uint64(33)) % np.uint64(below))


@njit(cache=True, nogil=True, error_model="numpy")
def patience(state, temperature):  # type: ignore[no-untyped-def]
    """Return how much worse, in ns, a candidate may be: exponentially distributed, its mean the temperature."""
    u = (draw(state, 1 << 30) + 1.0) / (1 << 30)
    return np.int64(-temperature * np.log(u))


@njit(cache=True, nogil=True, error_model="numpy")
def copy_candidate(source, target):  # type: ignore[no-untyped-def]
    """Copy a candidate into another's arrays."""
    n = source.head[0]
    for s in range(n):
        target.cuts[s] = source.cuts[s]
        target.ranks[s] = source.ranks[s]
        target.recompute[s] = source.recompute[s]
        target.fuse[s] = source.fuse[s]
    target.cuts[n] = source.cuts[n]
    target.head[:] = source.head
    for m in range(source.order.shape[0]):
        target.order[m] = source.order[m]


@njit(cache=True, nogil=True, error_model="numpy")
def _shift(cuts, i, step, legal):  # type: ignore[no-untyped-def]
    """Move cut i to the next legal place in a direction, unless that empties a stage."""
    c = cuts[i] + step
    while cuts[i - 1] < c < cuts[i + 1] and legal[c] == 0:
        c += step
    if cuts[i - 1] < c < cuts[i + 1]:
        cuts[i] = c


@njit(cache=True, nogil=True, error_model="numpy")
def _relieve(trial, heaviest, legal, random):  # type: ignore[no-untyped-def]
    """Take a layer off a stage of the heaviest rank, drawn, and give it to the stage before or after."""
    n = trial.head[0]
    at = draw(random, n)
    for i in range(n):
        s = (at + i) % n
        if trial.ranks[s] == heaviest:
            if s == n - 1 or (s > 0 and draw(random, 2) == 0):
                if s > 0:
                    _shift(trial.cuts, s, 1, legal)
            else:
                _shift(trial.cuts, s + 1, -1, legal)
            return


@njit(cache=True, nogil=True, error_model="numpy")
def _give(trial, legal, kinds, kind, giver, taker, random):  # type: ignore[no-untyped-def]
    """Shift a cut, drawn, so that a layer of a kind goes from one rank to another (-1: to any); return to which."""
    n, cuts, ranks = trial.head[0], trial.cuts, trial.ranks
    at = draw(random, n)
    for k in range(n):
        s = (at + k) % n
        if ranks[s] != giver or cuts[s + 1] - cuts[s] < 2:
            continue
        if s > 0 and kinds[cuts[s]] == kind and legal[cuts[s] + 1]:
            to = ranks[s - 1]
            if to != giver and (taker < 0 or to == taker):
                cuts[s] += 1
                return to
        if s < n - 1 and kinds[cuts[s + 1] - 1] == kind and legal[cuts[s + 1] - 1]:
            to = ranks[s + 1]
            if to != giver and (taker < 0 or to == taker):
                cuts[s + 1] -= 1
                return to
    return np.int64(-1)


@njit(cache=True, nogil=True, error_model="numpy")
def _exchange(trial, num_ranks, legal, kinds, random):  # type: ignore[no-untyped-def]
    """Let a layer go from one rank to another and one of its kind come back: the ranks' loads stay as they are."""
    n = trial.head[0]
    kind = kinds[draw(random, trial.cuts[n])]
    giver = draw(random, num_ranks)
    taker = _give(trial, legal, kinds, kind, giver, -1, random)
    if taker >= 0 and _give(trial, legal, kinds, kind, taker, giver, random) < 0:
        third = _give(trial, legal, kinds, kind, taker, -1, random)
        if third >= 0 and third != giver:
            _give(trial, legal, kinds, kind, third, giver, random)


@njit(cache=True, nogil=True, error_model="numpy")
def _move(trial, num_ranks, most, legal, allowed, heaviest, random):  # type: ignore[no-untyped-def]
    """Change the trial once: shift a cut, give a stage to another rank, swap two, split one, merge two, flip a mark."""
    cuts, ranks, recompute, fuse = trial.cuts, trial.ranks, trial.recompute, trial.fuse
    n = trial.head[0]
    dice = draw(random, 100)
    marks = allowed & (MOVE_RECOMPUTE | MOVE_FUSE)
    if marks and dice < 12:
        s = draw(random, n)
        if marks == MOVE_FUSE or (marks & MOVE_FUSE and dice < 6):
            fuse[s] = 1 - fuse[s]
        else:
            recompute[s] = 1 - recompute[s]
        return
    dice = draw(random, 100)
    if not allowed & MOVE_RANKS or dice < 55:
        if dice < 20:
            _relieve(trial, heaviest, legal, random)
        elif n > 1:
            _shift(cuts, 1 + draw(random, n - 1), 1 if draw(random, 2) == 0 else -1, legal)
    elif dice < 70:
        ranks[draw(random, n)] = draw(random, num_ranks)
    elif dice < 82:
        i = draw(random, n)
        j = draw(random, n)
        ranks[i], ranks[j] = ranks[j], ranks[i]
    elif not allowed & MOVE_COUNT:
        return
    elif dice < 91:
        i = draw(random, n)
        wide = cuts[i + 1] - cuts[i]
        if n < most and wide > 1:
            c = cuts[i] + 1 + draw(random, wide - 1)
            if legal[c] == 0:
                return
            for j in range(n, i, -1):
                cuts[j + 1] = cuts[j]
                ranks[j] = ranks[j - 1]
                recompute[j] = recompute[j - 1]
                fuse[j] = fuse[j - 1]
            cuts[i + 1] = c
            if draw(random, 5) > 0:
                ranks[i + draw(random, 2)] = draw(random, num_ranks)
            trial.head[0] = n + 1
    elif n > num_ranks:
        i = draw(random, n - 1)
        keep = i + draw(random, 2)
        ranks[i], recompute[i], fuse[i] = ranks[keep], recompute[keep], fuse[keep]
        for j in range(i + 1, n):
            cuts[j] = cuts[j + 1]
            if j < n - 1:
                ranks[j] = ranks[j + 1]
                recompute[j] = recompute[j + 1]
                fuse[j] = fuse[j + 1]
        trial.head[0] = n - 1


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
def _bring_together(trial, together, random):  # type: ignore[no-untyped-def]
    """Give the stages of layers that must share a rank to the rank of one of them, drawn."""
    n = trial.head[0]
    for g in range(together.shape[0]):
        size = 0
        while size < together.shape[1] and together[g, size] >= 0:
            size += 1
        chosen = together[g, draw(random, size)]
        home = trial.ranks[np.searchsorted(trial.cuts[: n + 1], chosen, side="right") - 1]
        for i in range(size):
            trial.ranks[np.searchsorted(trial.cuts[: n + 1], together[g, i], side="right") - 1] = home


@njit(cache=True, nogil=True, error_model="numpy")
def _crowded(trial, num_ranks, most_on_rank, counts):  # type: ignore[no-untyped-def]
    """Return whether a rank has no stage, or more than it may have."""
    for d in range(num_ranks):
        counts[d] = 0
    for s in range(trial.head[0]):
        counts[trial.ranks[s]] += 1
    for d in range(num_ranks):
        if counts[d] == 0 or counts[d] > most_on_rank:
            return True
    return False


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
def same(one, other):  # type: ignore[no-untyped-def]
    """Return whether two candidates are the same: a move that found nothing to change is not worth a schedule."""
    n = one.head[0]
    if n != other.head[0]:
        return False
    for s in range(n):
        if one.cuts[s] != other.cuts[s] or one.ranks[s] != other.ranks[s]:
            return False
        if one.recompute[s] != other.recompute[s] or one.fuse[s] != other.fuse[s]:
            return False
    for m in range(one.order.shape[0]):
        if one.order[m] != other.order[m]:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def propose(tables, bench, allowed, most_on_rank, exchanges):  # type: ignore[no-untyped-def]
    """Make the trial a neighbour of the current candidate; return whether it keeps the rules on ranks."""
    trial, random = bench.trial, bench.random
    num_ranks, most = bench.step.shape[0], bench.current.ranks.shape[0]
    copy_candidate(bench.current, trial)
    dice = draw(random, 100)
    heaviest = np.argmax(bench.ranks[4, :num_ranks])
    if dice >= 100 - exchanges:
        _exchange(trial, num_ranks, tables.legal, tables.layers[KIND], random)
    else:
        for _ in range(3 if dice < 12 else 2 if dice < 35 else 1):
            _move(trial, num_ranks, most, tables.legal, allowed, heaviest, random)
    bench.counts[0] += DROPPED_WORK
    bench.counts[1] += 1
    if allowed & MOVE_RANKS:
        if tables.together.shape[0] > 0:
            _bring_together(trial, tables.together, random)
        if _crowded(trial, num_ranks, most_on_rank, bench.ranks[0]):
            return False
    # A stage that holds layers of two groups may have left the first one.
    return tables.together.shape[0] == 0 or shares_ranks(tables, trial.cuts, trial.ranks, trial.head[0])


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
