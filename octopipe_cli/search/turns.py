"""A bound on one partition from what its ranks can hold: short of memory, a rank waits at both turns of the step.

Before its first backward a rank has nothing to run but F's, no more of them than it can hold, and the first backward
comes after a way through the whole model. After its last F it has nothing but backwards and W's of what it holds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import (
    AHEAD,
    BACK,
    BACKWARD,
    FORWARD,
    HELD,
    KEPT,
    ROOM,
    WEIGHT,
    WHOLE,
)

WORK, SIZE, RANK, USED = range(4)  # rows of the items


@njit(cache=True, nogil=True, error_model="numpy")
def _most_work(items, count, num_microbatches, room, most):  # type: ignore[no-untyped-def]
    """Write, by rank, the most work that its room holds at once: what needs least room for its time goes first."""
    for i in range(count):
        items[USED, i] = 0
    for _ in range(count):
        best, chosen = -1.0, -1
        for i in range(count):
            if items[USED, i] == 0:
                each = 1e300 if items[SIZE, i] <= 0 else items[WORK, i] / items[SIZE, i]
                if each > best:
                    best, chosen = each, i
        items[USED, chosen] = 1
        d = items[RANK, chosen]
        size = num_microbatches * max(items[SIZE, chosen], 0)
        if size <= room[d]:
            most[d] += num_microbatches * items[WORK, chosen]
            room[d] -= size
        elif room[d] > 0:
            most[d] += np.int64(np.ceil(best * room[d]))
            room[d] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _backward_items(costs, n, items):  # type: ignore[no-untyped-def]
    """Write what may run after the last F, as (work, size): B; I with its W; or W, and I apart where W is the better.

    Return how many there are. Backwards in time a W comes before its I: the I alone is no item.
    """
    times, fused, sizes = costs.times, costs.fused, costs.sizes
    count = n
    for s in range(n):
        held, kept = sizes[HELD, s], sizes[KEPT, s]
        gradient, weight = times[BACKWARD, s, 0], times[WEIGHT, s, 0]
        items[RANK, s] = costs.rank[s]
        items[SIZE, s] = held
        items[WORK, s] = times[WHOLE, s, 0] if fused[s, 0] else gradient + weight
        if not fused[s, 0] and kept < held and weight * float(held - kept) > gradient * float(kept):
            items[WORK, s], items[SIZE, s] = weight, kept
            items[WORK, count], items[SIZE, count], items[RANK, count] = gradient, held - kept, costs.rank[s]
            count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def turns_bound(costs, n, num_microbatches, step, memory, ranks, items):  # type: ignore[no-untyped-def]
    """Return a lower bound in ns on the step time of any schedule of n stages under memory limits.

    Parameters
    ----------
    costs, step, memory
        As `price` writes them; micro-batches alike.
    ranks, items
        Scratch of shapes (8, ranks), (4, 2 n).
    """
    num_ranks = step.shape[0]
    rank_of, times, fused, lags, sizes = costs.rank, costs.times, costs.fused, costs.lags, costs.sizes
    room, fill, drain, load, head, turn = ranks[0], ranks[1], ranks[2], ranks[3], ranks[4], ranks[5]
    passed, over = ranks[6], ranks[7]
    for d in range(num_ranks):
        room[d], fill[d], drain[d], load[d] = memory[ROOM, d], 0, 0, 0
        head[d], turn[d] = -1, -1
    way = np.int64(0)
    for s in range(n):
        d, forward = rank_of[s], times[FORWARD, s, 0]
        if head[d] < 0:
            head[d] = way
        load[d] += num_microbatches * forward
        way += forward
        passed[d] = way  # up to the end of F on the rank's last stage
        way += lags[AHEAD, s] if s + 1 < n else 0
        items[WORK, s], items[SIZE, s], items[RANK, s] = forward, sizes[HELD, s], d
    _most_work(items, n, num_microbatches, room, fill)
    for d in range(num_ranks):
        room[d] = memory[ROOM, d]
        over[d] = load[d] - fill[d]  # F's beyond what is held
    _most_work(items, _backward_items(costs, n, items), num_microbatches, room, drain)
    for s in range(n - 1, -1, -1):
        d = rank_of[s]
        if turn[d] < 0:
            turn[d] = way
        back = times[WHOLE, s, 0] if fused[s, 0] else times[BACKWARD, s, 0]
        load[d] += num_microbatches * (back + (0 if fused[s, 0] else times[WEIGHT, s, 0]))
        way += back + lags[BACK, s]
    way += step[rank_of[0]] + (0 if fused[0, 0] else times[WEIGHT, 0, 0])
    least = np.int64(0)
    for d in range(num_ranks):
        lead = max(head[d], turn[d] - fill[d])
        trail = max(step[d], way - passed[d] - drain[d])
        both = lead + trail if over[d] > 0 else max(lead + step[d], head[d] + trail)
        least = max(least, load[d] + both)
    return least


@njit(cache=True, nogil=True, error_model="numpy")
def flow_bound(costs, n, num_microbatches, step, done):  # type: ignore[no-untyped-def]
    """Return a lower bound in ns on the step time: ranks work off what can have come to them, in the order it comes.

    The one-machine bound with release times: no F of a stage starts before the first micro-batch has come there, no
    backward before it has gone through the whole model and back.

    Parameters
    ----------
    done
        Scratch of shape (ranks,).
    """
    times, fused, lags, rank_of = costs.times, costs.fused, costs.lags, costs.rank
    for d in range(step.shape[0]):
        done[d] = 0
    way = np.int64(0)
    for s in range(n):
        d, forward = rank_of[s], times[FORWARD, s, 0]
        done[d] = max(done[d], way) + num_microbatches * forward
        way += forward + (lags[AHEAD, s] if s + 1 < n else 0)
    for s in range(n - 1, -1, -1):
        d = rank_of[s]
        back = times[WHOLE, s, 0] if fused[s, 0] else times[BACKWARD, s, 0]
        load = back + (0 if fused[s, 0] else times[WEIGHT, s, 0])
        done[d] = max(done[d], way) + num_microbatches * load
        way += back + lags[BACK, s]
    least = np.int64(0)
    for d in range(step.shape[0]):
        least = max(least, done[d] + step[d])
    return least
