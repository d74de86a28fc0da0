"""Local search over the priorities of single actions, compiled: a better order for a given partition and placement."""

from __future__ import annotations

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import FORWARD, schedule
from octopipe_cli.search.moves import DROPPED_WORK, draw, patience

LONGEST_RUN = 8


@njit(cache=True, nogil=True, error_model="numpy")
def nudge_priorities(bench, num_microbatches, modes, rule, extra, kept, until, budget, hot, floor):  # type: ignore[no-untyped-def]
    """Go on changing priorities until `until` of `budget` actions' work is done, or a value of `floor` is found.

    The costs on the bench are those of its current candidate. `extra` holds the current additions to the priorities,
    shape (2, stages, micro-batches); `kept` those of the best value, `bench.best.head[1]`; the current value is
    `bench.current.head[1]`. A step adds one amount to a run of micro-batches of a stage, or to one or two actions.
    """
    n = bench.current.head[0]
    num_ranks = bench.step.shape[0]
    costs, step, memory, scratch, random, counts = (
        bench.costs, bench.step, bench.memory, bench.scratch, bench.random, bench.counts,
    )  # fmt: skip
    reach = np.int64(0)
    for s in range(n):
        reach += costs.times[FORWARD, s, 0]
    where = np.zeros((3, LONGEST_RUN), np.int64)
    amounts = np.zeros(LONGEST_RUN, np.int64)
    while counts[0] < until and bench.best.head[1] > floor:
        temperature = hot * (1.0 - counts[0] / budget)
        count = 0
        if draw(random, 4) == 0:  # a run of micro-batches of one stage
            way, s, m = draw(random, 2), draw(random, n), draw(random, num_microbatches)
            amount = _amount(random, reach)
            for at in range(m, min(num_microbatches, m + 1 + draw(random, LONGEST_RUN - 1))):
                where[0, count], where[1, count], where[2, count] = way, s, at
                amounts[count] = amount
                count += 1
        else:
            for _ in range(1 + draw(random, 2)):
                where[0, count] = draw(random, 2)
                where[1, count] = draw(random, n)
                where[2, count] = draw(random, num_microbatches)
                amounts[count] = _amount(random, reach)
                count += 1
        for i in range(count):
            extra[where[0, i], where[1, i], where[2, i]] += amounts[i]
        threshold = bench.current.head[1] + patience(random, temperature)
        value = schedule(
            costs, n, num_ranks, num_microbatches, step, memory, modes, rule, extra, scratch, threshold, bench.no_log
        )
        counts[0] += scratch.tree[0] + DROPPED_WORK
        counts[1] += 1
        if value <= threshold:
            bench.current.head[1] = value
            if value < bench.best.head[1]:
                bench.best.head[1] = value
                kept[:] = extra
        else:
            for i in range(count):
                extra[where[0, i], where[1, i], where[2, i]] -= amounts[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _amount(random, reach):  # type: ignore[no-untyped-def]
    """Return a change of priority of either sign: `reach` halved up to eight times, and a random part of that."""
    size = max(reach >> draw(random, 9), 1)
    return (draw(random, 2 * min(size, 1 << 29) + 1) - min(size, 1 << 29)) * max(1, size >> 29)
