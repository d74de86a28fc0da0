"""Cuts for orders that an engine has settled, compiled: a candidate is replayed, not scheduled.

What waits for what does not depend on the cuts, so all actions stand in one sequence in which each comes after those
it waits for, and a candidate costs one pass over it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import (
    AHEAD,
    BACK,
    BACKWARD,
    EARLY,
    FORWARD,
    HELD,
    INPUT,
    KEPT,
    NEVER,
    OUTPUT,
    ROOM,
    WEIGHT,
    WHOLE,
    WORK_B,
    WORK_F,
    Ints,
    StageCosts,
    lag_of,
    size_of,
)
from octopipe_cli.search.moves import draw, patience
from octopipe_cli.search.tables import new_costs, price, shares_ranks

REPLAY_WORK = 8  # what a candidate costs besides its actions, in actions
EXACT_WORK = 16  # what the exact look at the memory costs, by stage and micro-batch

OVER = 1 << 60  # above every time: from here on a value counts bytes that do not fit

INPUT_AT, GRADIENT_AT, F_AT, B_AT, W_AT = range(5)  # rows of `FixedBench.when`


class FixedBench(NamedTuple):
    """What one search over cuts works with.

    Attributes
    ----------
    sequence
        Shape (actions, 3): stage, kind (FORWARD, BACKWARD, WEIGHT or WHOLE), micro-batch; each after those it waits
        for.
    ranks, recompute, fuse
        Shape (stages,) each: the rank, and marks that stay.
    current, best, trial
        Shape (stages + 1,) each: cuts.
    values
        Shape (2,): the values of `current` and `best`, ns.
    """

    sequence: Ints
    ranks: Ints
    recompute: Ints
    fuse: Ints
    current: Ints
    best: Ints
    trial: Ints
    values: Ints
    costs: StageCosts
    step: Ints
    memory: Ints | None
    when: Ints  # (5, stages, micro-batches): arrival of input and of gradient, start of F, of I or B, of W (-1: B)
    book: Ints  # (5, ranks): when it is free, last end, first start, bytes held, most bytes too many
    random: Ints
    counts: Ints  # (2,): work done, candidates


def new_fixed_bench(
    sequence: Ints, ranks: tuple[int, ...], num_microbatches: int, recompute: bool, limited: bool, seed: int
) -> FixedBench:
    """Return a bench for one order on one sequence of ranks: stages that run I anywhere are not fused."""
    n, num_ranks = len(ranks), max(ranks) + 1
    cuts = np.zeros(n + 1, np.int64)
    return FixedBench(
        sequence,
        np.array(ranks, np.int64),
        np.full(n, int(recompute), np.int64),
        np.array([not ((sequence[:, 0] == s) & (sequence[:, 1] == BACKWARD)).any() for s in range(n)], np.int64),
        cuts,
        cuts.copy(),
        cuts.copy(),
        np.array([NEVER, NEVER], np.int64),
        new_costs(n),
        np.zeros(num_ranks, np.int64),
        np.zeros((5, num_ranks), np.int64) if limited else None,
        np.zeros((5, n, num_microbatches), np.int64),
        np.zeros((5, num_ranks), np.int64),
        np.array([(seed * 2654435761 + 88172645463325252) % (1 << 62) + 1], np.int64),
        np.zeros(2, np.int64),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def replay(sequence, costs, n, step, memory, blocking, by_span, when, book, offset):  # type: ignore[no-untyped-def]
    """Return the step time (or span) of a sequence; OVER and the bytes too many where it surely won't fit.

    Where micro-batches differ, the sequence's micro-batch m is column offset + m of the costs.
    Boundary tensors that wait for their turn are left to `excess`. `when` is written.
    """
    times, lags, sizes, rank_of, apart = costs.times, costs.lags, costs.sizes, costs.rank, costs.apart
    vary = 0 if times.shape[2] == 1 else -1
    num_ranks = step.shape[0]
    for d in range(num_ranks):
        book[0, d] = 0
        book[1, d] = 0
        book[2, d] = -1
        book[3, d] = 0
        book[4, d] = 0
    for k in range(sequence.shape[0]):
        s, kind, m = sequence[k, 0], sequence[k, 1], sequence[k, 2]
        d = rank_of[s]
        c = offset + m
        begin = book[0, d]
        lag = np.int64(0)
        if kind == WEIGHT:
            when[W_AT, s, m] = begin
            end = begin + times[WEIGHT, s, c & vary]
            if memory is not None:
                book[3, d] -= size_of(sizes, apart, KEPT, s, c)
        elif kind == FORWARD:
            if s > 0:
                begin = max(begin, when[INPUT_AT, s, m])
            when[F_AT, s, m] = begin
            end = begin + times[FORWARD, s, c & vary]
            if s < n - 1:
                lag = lag_of(lags, apart, AHEAD, s, c)
                when[INPUT_AT, s + 1, m] = end + lag
            if memory is not None:
                book[3, d] += size_of(sizes, apart, HELD, s, c)
                book[4, d] = max(book[4, d], book[3, d] + size_of(sizes, apart, WORK_F, s, c) - memory[ROOM, d])
        else:
            if s < n - 1:
                begin = max(begin, when[GRADIENT_AT, s, m])
            when[B_AT, s, m] = begin
            if kind == WHOLE:
                when[W_AT, s, m] = -1
            end = begin + times[kind, s, c & vary]
            if s > 0:
                lag = lag_of(lags, apart, BACK, s, c)
                when[GRADIENT_AT, s - 1, m] = end + lag
            if memory is not None:
                most = book[3, d] + size_of(sizes, apart, WORK_B, s, c) + size_of(sizes, apart, OUTPUT, s, c)
                if kind == BACKWARD:
                    most += size_of(sizes, apart, EARLY, s, c)
                    book[3, d] += size_of(sizes, apart, KEPT, s, c)
                book[3, d] -= size_of(sizes, apart, HELD, s, c)
                book[4, d] = max(book[4, d], most - memory[ROOM, d], book[3, d] - memory[ROOM, d])
        if book[2, d] < 0:
            book[2, d] = begin
        book[1, d] = end
        book[0, d] = end + lag if blocking else end
    value = np.int64(0)
    over = np.int64(0)
    for d in range(num_ranks):
        value = max(value, book[1, d] + step[d] - (book[2, d] if by_span else 0))
        over += book[4, d]
    return OVER + over if over > 0 else value


@njit(cache=True, nogil=True, error_model="numpy")
def _book(at, begin, end, size, keys, changes):  # type: ignore[no-untyped-def]
    """Note what is held from begin to end; return how many entries there are. Releases sort before allocations."""
    if size == 0 or end <= begin:
        return at
    keys[at], changes[at] = 2 * begin + 1, size
    keys[at + 1], changes[at + 1] = 2 * end, -size
    return at + 2


@njit(cache=True, nogil=True, error_model="numpy")
def excess(costs, n, memory, when, counts):  # type: ignore[no-untyped-def]
    """Return by how many bytes ranks exceed their room at some instant of a replay (formats: memory, spelled out)."""
    total = np.int64(0)
    if memory is None:
        return total
    counts[0] += when.shape[2] * n * EXACT_WORK
    times, sizes, rank_of = costs.times, costs.sizes, costs.rank
    num_microbatches = when.shape[2]
    keys = np.zeros(12 * n * num_microbatches, np.int64)
    changes = np.zeros(12 * n * num_microbatches, np.int64)
    for d in range(memory.shape[1]):
        at = 0
        for s in range(n):
            if rank_of[s] != d:
                continue
            for m in range(num_microbatches):
                f, b, w = when[F_AT, s, m], when[B_AT, s, m], when[W_AT, s, m]
                end = b + (times[WHOLE, s, 0] if w < 0 else times[BACKWARD, s, 0])
                if w >= 0:
                    since = b if sizes[EARLY, s] > 0 else end
                    at = _book(at, since, w + times[WEIGHT, s, 0], sizes[KEPT, s], keys, changes)
                at = _book(at, f, end, sizes[HELD, s], keys, changes)
                at = _book(at, f, f + times[FORWARD, s, 0], sizes[WORK_F, s], keys, changes)
                at = _book(at, b, end, sizes[WORK_B, s], keys, changes)
                if s > 0:
                    at = _book(at, when[INPUT_AT, s, m], f, sizes[INPUT, s], keys, changes)
                if s < n - 1:
                    at = _book(at, when[GRADIENT_AT, s, m], end, sizes[OUTPUT, s], keys, changes)
        held = most = np.int64(0)
        for i in np.argsort(keys[:at]):
            held += changes[i]
            most = max(most, held)
        total += max(most - memory[ROOM, d], 0)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate(tables, bench, cuts, overhead, blocking, by_span, mtp, threshold):  # type: ignore[no-untyped-def]
    """Return the value of cuts; NEVER where they break a rule, OVER and the bytes too many where they do not fit.

    Whether they fit to the byte is only looked at where they are no worse than the threshold.

    `mtp`: (first MTP layer, the first and the last stage that may hold it); a layer of -1 where there is none.
    """
    n = bench.ranks.shape[0]
    bench.counts[0] += REPLAY_WORK
    bench.counts[1] += 1
    if mtp[0] >= 0:
        stage = np.searchsorted(cuts[: n + 1], mtp[0], side="right") - 1
        if stage < mtp[1] or stage > mtp[2]:
            return NEVER
    if tables.together.shape[0] > 0 and not shares_ranks(tables, cuts, bench.ranks, n):
        return NEVER
    costs, step, memory = bench.costs, bench.step, bench.memory
    # What it says of the memory is meant for the list scheduler, which reserves more than a settled order may need.
    price(tables, cuts, bench.ranks, bench.recompute, bench.fuse, n, overhead, costs, step, memory)
    for s in range(n):
        if costs.fused[s, 0] != bench.fuse[s]:  # the order has I and W where these layers may not split
            return NEVER
    bench.counts[0] += bench.sequence.shape[0] // 2
    value = replay(bench.sequence, costs, n, step, memory, blocking, by_span, bench.when, bench.book, 0)
    if value > threshold or value >= OVER:
        return value
    over = excess(costs, n, memory, bench.when, bench.counts)
    return OVER + over if over > 0 else value


@njit(cache=True, nogil=True, error_model="numpy")
def _carry(cuts, first, last, way, legal, least):  # type: ignore[no-untyped-def]
    """Move the cuts first .. last to their next legal place; return whether every stage keeps `least` layers."""
    for i in range(first, last + 1):
        c = cuts[i] + way
        while 0 < c < cuts[-1] and legal[c] == 0:
            c += way
        cuts[i] = c
    if cuts[1] < 1 or cuts[-2] > cuts[-1] - 1:
        return False
    for i in range(cuts.shape[0] - 1):
        if cuts[i + 1] - cuts[i] < least:
            return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def anneal_cuts(tables, bench, overhead, blocking, by_span, mtp, least, until, budget, hot):  # type: ignore[no-untyped-def]
    """Go on annealing until `until` of `budget` actions' work is done; a temperature of `hot` ns falls to nothing.

    `least`: layers a stage has at the least, 0 where the engine takes empty stages; the first and the last have one.
    """
    n = bench.ranks.shape[0]
    current, best, trial, values, random = bench.current, bench.best, bench.trial, bench.values, bench.random
    while bench.counts[0] < until:
        temperature = hot * (1.0 - bench.counts[0] / budget)
        trial[:] = current
        legal = True
        for _ in range(1 + (draw(random, 4) == 0)):
            first = 1 + draw(random, n - 1)
            last = first
            if draw(random, 2) == 0:  # a layer goes from one stage to another, those between move on
                last = min(n - 1, first + draw(random, n - first))
            legal = legal and _carry(trial, first, last, 1 if draw(random, 2) == 0 else -1, tables.legal, least)
        if not legal:
            bench.counts[0] += 1
            continue
        threshold = values[0] + patience(random, temperature)
        value = evaluate(tables, bench, trial, overhead, blocking, by_span, mtp, threshold)
        if value <= threshold and value < NEVER:
            current[:] = trial
            values[0] = value
            if value < values[1]:
                best[:] = trial
                values[1] = value
