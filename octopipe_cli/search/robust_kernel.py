"""One plan for many sets of lengths, compiled: every candidate's orders are replayed with each of the sets.

Orders are made by the list scheduler for equal micro-batches; a log of it is a sequence in which every action comes
after those it waits for, so that a set costs one pass over it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import BACKWARD, FORWARD, NEVER, WEIGHT, WHOLE, Ints, StageCosts, schedule
from octopipe_cli.search.fixed_kernel import OVER, replay
from octopipe_cli.search.moves import DROPPED_WORK, copy_candidate, draw, patience, propose, same
from octopipe_cli.search.tables import new_costs, price, quick_bound

#: What of the values over the sets counts.
MEAN, P95, WORST = range(3)
SCHEDULES_TRIED = 3
#: How far an action is moved in a sequence at the most.
FARTHEST = 64


class Sets(NamedTuple):
    """What the replays of many sets of lengths work with.

    Attributes
    ----------
    costs, memory
        The costs of all micro-batches of all sets, one set after another, and ROOM and more by rank (None: not
        limited).
    values, ordered
        Shape (sets,) each: the step time (or span) of each set, in ns, as they are and ascending.
    when, book
        Scratch of the replay.
    log
        Shape (actions + 1, 4): the list scheduler's.
    sequence
        Shape (actions, 3): the same as stage, kind, micro-batch.
    """

    costs: StageCosts
    memory: Ints | None
    values: Ints
    ordered: Ints
    when: Ints
    book: Ints
    log: Ints
    sequence: Ints


def new_sets(num_stages: int, num_ranks: int, num_microbatches: int, num_sets: int, limited: bool) -> Sets:
    """Return scratch for so many sets and up to so many stages."""
    actions = 3 * num_stages * num_microbatches
    return Sets(
        new_costs(num_stages, num_sets * num_microbatches),
        np.zeros((5, num_ranks), np.int64) if limited else None,
        np.zeros(num_sets, np.int64),
        np.zeros(num_sets, np.int64),
        np.zeros((5, num_stages, num_microbatches), np.int64),
        np.zeros((5, num_ranks), np.int64),
        np.zeros((actions, 4), np.int64),
        np.zeros((actions, 3), np.int64),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def summed_up(sets, which):  # type: ignore[no-untyped-def]
    """Return the mean of the values, or half of it with half of their 95th percentile or largest, in whole ns.

    OVER where one is: a set that does not fit. A tail alone is two or three of the sets: what is fitted to them lets
    the others go and bears new ones badly. (Orders for nemotron-nano-9b-v2 fitted to the 95th percentile of 32 sets
    became 5 % slower in the mean of 32 new ones and 7 % at their 95th percentile; to half of each, 0 and -1.5 %.)
    """
    number = sets.values.shape[0]
    for k in range(number):
        if sets.values[k] >= OVER:
            return OVER
    total = np.int64(0)
    for k in range(number):
        total += sets.values[k]
    mean = total // number
    if which == MEAN:
        return mean
    sets.ordered[:] = np.sort(sets.values)
    if which == WORST:
        return (sets.ordered[number - 1] + mean) // 2
    at, rest = (number - 1) * 95 // 100, (number - 1) * 95 % 100
    value = sets.ordered[at]
    if rest > 0:
        value += (sets.ordered[at + 1] - value) * rest // 100
    return (value + mean) // 2


@njit(cache=True, nogil=True, error_model="numpy")
def replay_sets(sequence, sets, n, step, modes, which, num_microbatches):  # type: ignore[no-untyped-def]
    """Return what the sets' values come to for one sequence of actions; what does not fit counts as OVER."""
    for k in range(sets.values.shape[0]):
        sets.values[k] = replay(
            sequence, sets.costs, n, step, sets.memory, modes[0], modes[1], sets.when, sets.book, k * num_microbatches
        )
    return summed_up(sets, which)


@njit(cache=True, nogil=True, error_model="numpy")
def least_of_sets(costs, n, num_microbatches, step, modes, sets, which, scratch):  # type: ignore[no-untyped-def]
    """Return a bound on what the sets' values come to: each set's by the loads of the ranks."""
    num_ranks = step.shape[0]
    for k in range(sets.values.shape[0]):
        for d in range(num_ranks):
            scratch[1, d] = step[d]
        for s in range(n):
            load = np.int64(0)
            for m in range(k * num_microbatches, (k + 1) * num_microbatches):
                load += costs.times[FORWARD, s, m]
                load += (
                    costs.times[WHOLE, s, m]
                    if costs.fused[s, 0]
                    else costs.times[BACKWARD, s, m] + costs.times[WEIGHT, s, m]
                )
            scratch[1, costs.rank[s]] += load
        most = np.int64(0)
        for d in range(num_ranks):
            most = max(most, scratch[1, d])
        sets.values[k] = most
    return summed_up(sets, which)


@njit(cache=True, nogil=True, error_model="numpy")
def sequence_of_log(log, costs, count, sequence):  # type: ignore[no-untyped-def]
    """Write a log's actions as a sequence: stage, kind, micro-batch."""
    for k in range(count):
        s, kind = log[k, 0], log[k, 1]
        sequence[k, 0] = s
        sequence[k, 1] = WHOLE if kind == BACKWARD and costs.fused[s, 0] else kind
        sequence[k, 2] = log[k, 2]
    return sequence[:count]


@njit(cache=True, nogil=True, error_model="numpy")
def _value_by_rule(rule, n, num_microbatches, modes, bench, sets, which):  # type: ignore[no-untyped-def]
    """Return what the priced candidate's schedule by a rule is worth over the sets; NEVER where it has none."""
    found = schedule(
        bench.costs, n, bench.step.shape[0], num_microbatches, bench.step, bench.memory, modes,
        (rule[0], rule[1], rule[2]), bench.no_extra, bench.scratch, NEVER, sets.log,
    )  # fmt: skip
    count = bench.scratch.tree[0]
    bench.counts[0] += count
    if found >= NEVER:
        return NEVER
    sequence = sequence_of_log(sets.log, bench.costs, count, sets.sequence)
    bench.counts[0] += count * sets.values.shape[0] // 8
    return replay_sets(sequence, sets, n, bench.step, modes, which, num_microbatches)


@njit(cache=True, nogil=True, error_model="numpy")
def try_sets(tables, num_microbatches, overhead, modes, rules, bench, sets, which, first, last):  # type: ignore[no-untyped-def]
    """Schedule the current candidate with the rules first .. last - 1 and replay the sets; note the best."""
    current = bench.current
    n = current.head[0]
    marks = (current.cuts, current.ranks, current.recompute, current.fuse)
    if not price(tables, *marks, n, overhead, bench.costs, bench.step, bench.memory):
        return
    price(tables, *marks, n, overhead, sets.costs, bench.step, sets.memory)
    for j in range(first, last):
        bench.counts[0] += DROPPED_WORK
        value = _value_by_rule(rules[j], n, num_microbatches, modes, bench, sets, which)
        if value < current.head[1]:
            current.head[1] = value
            current.head[2] = j
    if current.head[1] < bench.best.head[1]:
        copy_candidate(current, bench.best)


@njit(cache=True, nogil=True, error_model="numpy")
def anneal_sets(tables, num_microbatches, overhead, modes, rules, bench, sets, which, allowed, most_on_rank, work, hot):  # type: ignore[no-untyped-def]
    """Go on annealing over partition, placement and rule, judged by the sets, until the work is done.

    The arguments are those of `anneal`; `which` says what of the sets' values counts.
    """
    until, budget = work
    num_ranks = bench.step.shape[0]
    current, trial, random, counts = bench.current, bench.trial, bench.random, bench.counts
    while counts[0] < until:
        temperature = hot * (1.0 - counts[0] / budget)
        if not propose(tables, bench, allowed, most_on_rank, 25) or same(trial, current):
            continue
        n = trial.head[0]
        marks = (trial.cuts, trial.ranks, trial.recompute, trial.fuse)
        if not price(tables, *marks, n, overhead, bench.costs, bench.step, bench.memory):
            continue
        threshold = current.head[1] + patience(random, temperature)
        if quick_bound(bench.costs, n, num_microbatches, bench.step, modes[1], bench.ranks) >= NEVER:
            continue
        price(tables, *marks, n, overhead, sets.costs, bench.step, sets.memory)
        counts[0] += n * sets.values.shape[0]
        if least_of_sets(sets.costs, n, num_microbatches, bench.step, modes, sets, which, bench.ranks) > threshold:
            continue
        value = threshold + 1
        for attempt in range(SCHEDULES_TRIED):
            j = current.head[2] if attempt == 0 else draw(random, rules.shape[0])
            found = _value_by_rule(rules[j], n, num_microbatches, modes, bench, sets, which)
            if found < value:
                value = found
                trial.head[1] = value
                trial.head[2] = j
        counts[2] += 1
        if value <= threshold:
            counts[3] += 1
            copy_candidate(trial, current)
            bench.ranks[4, :num_ranks] = bench.ranks[0, :num_ranks]
            if value < bench.best.head[1]:
                copy_candidate(trial, bench.best)


@njit(cache=True, nogil=True, error_model="numpy")
def _bound_to(a, b):  # type: ignore[no-untyped-def]
    """Return whether action b waits for action a, or the other way round, or one rank's rule orders them."""
    if a[2] != b[2]:
        return False
    if a[0] == b[0]:
        return True  # F, I, W of one stage and micro-batch
    if a[1] == WEIGHT or b[1] == WEIGHT:
        return False
    near = a[0] - b[0]
    return near in (1, -1) and (a[1] == FORWARD) == (b[1] == FORWARD)


@njit(cache=True, nogil=True, error_model="numpy")
def move_action(sequence, p, q):  # type: ignore[no-untyped-def]
    """Move the action at p towards q as far as nothing bound to it stands in the way; return where it comes to be."""
    way = 1 if q > p else -1
    s, kind, m = sequence[p, 0], sequence[p, 1], sequence[p, 2]
    at = p
    while at != q and not _bound_to((s, kind, m), sequence[at + way]):
        for c in range(3):
            sequence[at, c] = sequence[at + way, c]
        at += way
    sequence[at, 0], sequence[at, 1], sequence[at, 2] = s, kind, m
    return at


@njit(cache=True, nogil=True, error_model="numpy")
def move_back(sequence, p, at):  # type: ignore[no-untyped-def]
    """Undo `move_action`."""
    way = 1 if p > at else -1
    s, kind, m = sequence[at, 0], sequence[at, 1], sequence[at, 2]
    while at != p:
        for c in range(3):
            sequence[at, c] = sequence[at + way, c]
        at += way
    sequence[at, 0], sequence[at, 1], sequence[at, 2] = s, kind, m


@njit(cache=True, nogil=True, error_model="numpy")
def better_sequence(sequence, best, values, costs, sets, n, step, memory, modes, which, number, random, work, hot):  # type: ignore[no-untyped-def]
    """Anneal over the order of actions, judged by the sets; `best` and values (current, best) are written.

    A step moves an action past others in the sequence of all. It must fit with equal micro-batches too, whose costs
    and memory are given.
    """
    count, spent = sequence.shape[0], np.int64(0)
    each = count * (sets.values.shape[0] + 1) // 8 + DROPPED_WORK
    while spent < work:
        spent += each
        temperature = hot * (1.0 - spent / work)
        p = draw(random, count)
        reach = 1 + draw(random, FARTHEST)
        q = min(count - 1, p + reach) if draw(random, 2) == 0 else max(0, p - reach)
        at = move_action(sequence, p, q)
        threshold = values[0] + patience(random, temperature)
        value = threshold + 1
        if at != p and (
            memory is None
            or replay(sequence, costs, n, step, memory, modes[0], modes[1], sets.when, sets.book, 0) < OVER
        ):
            value = replay_sets(sequence, sets, n, step, modes, which, number)
        if value <= threshold:
            values[0] = value
            if value < values[1]:
                values[1] = value
                best[:] = sequence
        else:
            move_back(sequence, p, at)
