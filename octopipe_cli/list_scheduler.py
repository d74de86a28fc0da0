"""The compiled greedy list scheduler: stage costs and priorities -> a schedule, within every rank's memory.

Event-driven. The rank whose next action can start first acts; a rank takes the F or backward (I or B) that can start
first, ties by least priority, and fills the gap before it with a W that fits. Under memory limits an action is
admitted only if what it holds afterwards leaves room for the oldest micro-batches to go on, which keeps the greedy
rule from running into a wall (design, section 5). All arithmetic is on 64-bit integers.

The kernels take named tuples of arrays and write into scratch arrays made once, so that a call allocates nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import Action, ActionKind, Orders

Ints = NDArray[np.int64]

#: More than any time; what a kernel returns where there is no schedule, or none within the cut-off.
NEVER: Final = 1 << 61
UNLIMITED: Final = 1 << 61

FORWARD, BACKWARD, WEIGHT, WHOLE, NOTHING = 0, 1, 2, 3, -1

#: So far back a rank's memory is remembered exactly, in steps of its highest levels; beyond, less is allowed.
PAST: Final = 8


# Rows of the arrays below.
AHEAD, BACK = 0, 1
HELD, KEPT, EARLY, WORK_F, WORK_B, INPUT, OUTPUT = range(7)
ROOM, SLOT, ARRIVAL, NEXT = range(4)


class Apart(NamedTuple):
    """What stages cost by micro-batch.

    Attributes
    ----------
    lags, sizes
        As in `StageCosts`, with a last axis of micro-batches.
    way
        Shape (2, stages): what F, what the backward and their transfers count for in priorities: a mean.
    order
        Shape (micro-batches,): the column of the tables that each one is.
    """

    lags: Ints
    sizes: Ints
    way: Ints
    order: Ints


class StageCosts(NamedTuple):
    """What stages cost.

    Attributes
    ----------
    rank
        Shape (stages,).
    times
        Shape (4, stages, 1), or (4, stages, micro-batches) where these differ: F, I, W, B in ns (rows FORWARD,
        BACKWARD, WEIGHT, WHOLE), overhead and recomputation included.
    fused
        Shape (stages, 1) or (stages, micro-batches): 1 where B runs, 0 where I and W do.
    lags
        Shape (2, stages): transfer to the next, to the previous stage (rows AHEAD, BACK).
    sizes
        Shape (7, stages), bytes: HELD from F to I or B, KEPT from I to W, EARLY what of that is there from the start
        of I (recomputed stages), WORK_F and WORK_B while F, while I or B runs, INPUT and OUTPUT boundary tensors.
    apart
        What micro-batches that differ have of their own; None where they are alike (compiled apart, so that it costs
        nothing there). `sizes` are then the most of any.
    """

    rank: Ints
    times: Ints
    fused: Ints
    lags: Ints
    sizes: Ints
    apart: Apart | None = None


class Scratch(NamedTuple):
    """Arrays the scheduler works in; see `new_scratch`."""

    arrival: Ints  # (2, stages, micro-batches): when the input of F, of the backward is there
    stage: Ints  # (4, stages): F's, backwards, W's started; place in `ready`
    barred: Ints  # (2, stages): by place, when F, when the backward was last found to have no room at a neighbour
    ready: Ints  # (5, stages): by rank, its stages together: the stage, when its next F and backward can start, and
    #              their priorities
    rank: Ints  # (9, ranks + 1): named in `schedule`
    change: Ints  # (6, stages): what F, what a backward adds to its rank's bytes, for good and at the most (but KEPT);
    #             what else the oldest micro-batch must leave after it for its next tensor
    book: Ints  # (4, ranks): bytes held now; the oldest micro-batch that has not entered all stages; what it still
    #             has to hold there; entries of `past`
    past: Ints  # (2, ranks, PAST): the most bytes held from then to the end of the last action, and then; see `_hold`
    tree: Ints  # (2 x a power of two,): winner tree over the ranks, who can act first; at 0, the actions started
    first: Ints  # (ranks + 1,): where a rank's stages begin in `ready`


def new_scratch(num_stages: int, num_ranks: int, num_microbatches: int) -> Scratch:
    """Return scratch arrays for up to that many stages."""
    leaves = 1
    while leaves < num_ranks:
        leaves *= 2
    return Scratch(
        np.zeros((2, num_stages, num_microbatches), np.int64),
        np.zeros((4, num_stages), np.int64),
        np.zeros((2, num_stages), np.int64),
        np.zeros((5, num_stages), np.int64),
        np.zeros((9, num_ranks + 1), np.int64),
        np.zeros((6, num_stages), np.int64),
        np.zeros((4, num_ranks), np.int64),
        np.zeros((2, num_ranks, PAST), np.int64),
        np.zeros(2 * leaves, np.int64),
        np.zeros(num_ranks + 1, np.int64),
    )


# Rows of `Scratch.book` and of `Scratch.change`.
NOW, OLDEST, REST, ENTRIES = range(4)
MOST, SINCE = 0, 1
# What a rank waits for: room at other ranks, a bit for each; and room of its own.
SHORT_BIT = 62
SHORT = 1 << SHORT_BIT
NET_F, PEAK_F, NET_B, PEAK_B, LEAVE_F, LEAVE_B = range(6)


@njit(cache=True, nogil=True, error_model="numpy")
def size_of(sizes, apart, row, s, m):  # type: ignore[no-untyped-def]
    """Return a size of stage s for micro-batch m."""
    if apart is None:
        return sizes[row, s]
    return apart.sizes[row, s, min(m, apart.sizes.shape[2] - 1)]


@njit(cache=True, nogil=True, error_model="numpy")
def lag_of(lags, apart, row, s, m):  # type: ignore[no-untyped-def]
    """Return a transfer time of stage s for micro-batch m."""
    if apart is None:
        return lags[row, s]
    return apart.lags[row, s, m]


@njit(cache=True, nogil=True, error_model="numpy")
def _way(times, fused, lags, apart, row, s):  # type: ignore[no-untyped-def]
    """Return what stage s adds to the path that priorities count: its F, or its backward, and the transfer."""
    if apart is not None:
        return apart.way[row, s]
    if row == AHEAD:
        return times[FORWARD, s, 0] + lags[AHEAD, s]
    return (times[WHOLE, s, 0] if fused[s, 0] else times[BACKWARD, s, 0]) + lags[BACK, s]


@njit(cache=True, nogil=True, error_model="numpy")
def _change_f(change, sizes, apart, memory, rank_of, n, s, m):  # type: ignore[no-untyped-def]
    """Note what F of stage s does to its rank's bytes for micro-batch m."""
    d = rank_of[s]
    change[NET_F, s] = size_of(sizes, apart, HELD, s, m)
    change[LEAVE_F, s] = memory[ARRIVAL, d]
    if s > 0:
        change[NET_F, s] -= size_of(sizes, apart, INPUT, s, m)
    change[PEAK_F, s] = change[NET_F, s] + size_of(sizes, apart, WORK_F, s, m)
    if s < n - 1 and rank_of[s + 1] == d:
        change[NET_F, s] += size_of(sizes, apart, OUTPUT, s, m)
        change[LEAVE_F, s] -= size_of(sizes, apart, OUTPUT, s, m)


@njit(cache=True, nogil=True, error_model="numpy")
def _change_b(change, sizes, apart, memory, rank_of, n, s, m):  # type: ignore[no-untyped-def]
    """Note what the backward of stage s does to its rank's bytes for micro-batch m (but KEPT and EARLY)."""
    d = rank_of[s]
    change[NET_B, s] = -size_of(sizes, apart, HELD, s, m)
    change[LEAVE_B, s] = memory[ARRIVAL, d]
    if s > 0 and rank_of[s - 1] == d:
        change[NET_B, s] += size_of(sizes, apart, INPUT, s, m)
        change[LEAVE_B, s] -= size_of(sizes, apart, INPUT, s, m)
    change[PEAK_B, s] = size_of(sizes, apart, WORK_B, s, m)
    if s < n - 1:
        change[NET_B, s] -= size_of(sizes, apart, OUTPUT, s, m)


@njit(cache=True, nogil=True, error_model="numpy")
def _next_change(change, sizes, apart, memory, rank_of, n, s, kind, m):  # type: ignore[no-untyped-def]
    """Note what the next action of a kind does, where micro-batches differ."""
    if apart is not None and memory is not None and m < apart.sizes.shape[2]:
        if kind == FORWARD:
            _change_f(change, sizes, apart, memory, rank_of, n, s, m)
        elif kind == BACKWARD:
            _change_b(change, sizes, apart, memory, rank_of, n, s, m)


@njit(cache=True, nogil=True, error_model="numpy")
def _neighbour_admits(e, out, arrives, newer, m, memory, book, past, last_end):  # type: ignore[no-untyped-def]
    """Return whether a result of `out` bytes may arrive at rank e then.

    `newer` is 0 for the oldest micro-batch of all, which may use the reserve, 1 for the next one. Nothing but its
    order holds an action back, so one that may not start now is passed by: the rank's next one may make it late enough.
    """
    reserved = memory[ARRIVAL, e] if newer > 0 else 0
    spare = memory[ROOM, e] - book[NOW, e] - out
    if newer > 0:
        spare -= memory[SLOT, e]
    if newer > 1:
        spare -= memory[NEXT, e]
        reserved += memory[NEXT, e]
    if m > book[OLDEST, e]:
        spare -= book[REST, e]
    if spare < 0:
        return False
    if arrives >= last_end[e]:
        return True
    i = book[ENTRIES, e] - 1
    while i > 0 and past[SINCE, e, i] > arrives:
        i -= 1
    return past[MOST, e, i] + out + reserved <= memory[ROOM, e]


@njit(cache=True, nogil=True, error_model="numpy")
def _hold(e, since, peak, after, book, past):  # type: ignore[no-untyped-def]
    """Book the next action on rank e: the bytes at the most while it runs, and after it.

    `since` is the end of the action before it. The entries of `past` fall with time: each says how much was held at
    the most from its time on.
    """
    most = max(peak, after, book[NOW, e])
    book[NOW, e] = after
    i = book[ENTRIES, e]
    while i > 0 and past[MOST, e, i - 1] <= most:
        i -= 1
        since = past[SINCE, e, i]
    if i == PAST:  # forget the second: the first is higher and holds for its time too
        for j in range(1, PAST - 1):
            past[MOST, e, j] = past[MOST, e, j + 1]
            past[SINCE, e, j] = past[SINCE, e, j + 1]
        i -= 1
    past[MOST, e, i] = most
    past[SINCE, e, i] = since
    book[ENTRIES, e] = i + 1


@njit(cache=True, nogil=True, error_model="numpy")
def _arrive(e, out, arrives, book, past, last_end):  # type: ignore[no-untyped-def]
    """Book a tensor that comes to rank e."""
    book[NOW, e] += out
    if arrives < last_end[e]:
        for i in range(book[ENTRIES, e]):
            past[MOST, e, i] += out


@njit(cache=True, nogil=True, error_model="numpy")
def schedule(costs, n, num_ranks, num_microbatches, step, memory, modes, rule, extra, scratch, cutoff, log):  # type: ignore[no-untyped-def]
    """Return the step time of the greedy schedule of the first n stages, or NEVER.

    Parameters
    ----------
    step
        Time after the last action, by rank.
    memory
        Shape (4, ranks), bytes: ROOM for micro-batches (limit less state); SLOT, the reserve in it for the oldest of
        them; ARRIVAL, the part of that for a tensor on its way; NEXT, a reserve for a tensor of the next oldest. See
        `reserve`. None where no rank is limited (compiled apart, so that it costs nothing there).
    modes
        (blocking, by span): whether senders wait for their transfers, whether the longest span is wanted instead of
        the step time.
    rule
        (offset, bias, slack): priority of F is micro-batch x offset + path so far, the backward's is shifted down by
        bias; a W may be longer than the gap it fills by slack. All in ns.
    extra
        Shape (2, stages, micro-batches) or (2, 0, 0): added to the priorities of F and of the backward.
    cutoff
        Give up as soon as the step time must exceed it.
    log
        Shape (actions, 4): written with stage, kind (0 F, 1 I or B, 2 W), micro-batch, start; or (0, 4).
    """
    offset, bias, slack = rule
    blocking, by_span = modes
    arrival, tree, first = scratch.arrival, scratch.tree, scratch.first
    started_f, started_b, started_w = scratch.stage[0], scratch.stage[1], scratch.stage[2]
    place, barred = scratch.stage[3], scratch.barred
    change, past = scratch.change, scratch.past
    member, ready_f, ready_b = scratch.ready[0], scratch.ready[1], scratch.ready[2]
    urge_f, urge_b = scratch.ready[3], scratch.ready[4]
    free, when, what, which = scratch.rank[0], scratch.rank[1], scratch.rank[2], scratch.rank[3]
    todo, waits, last_end, origin = scratch.rank[4], scratch.rank[5], scratch.rank[6], scratch.rank[7]
    dirty = scratch.rank[8]
    rank_of, times, fused, lags, sizes, apart, book = (
        costs.rank,
        costs.times,
        costs.fused,
        costs.lags,
        costs.sizes,
        costs.apart,
        scratch.book,
    )
    vary = 0 if times.shape[2] == 1 else -1  # micro-batch & vary: its column
    pick = 0 if fused.shape[1] == 1 else -1
    with_extra = extra.shape[1] > 0
    logging = log.shape[0] > 0
    leaves = tree.shape[0] // 2

    for d in range(num_ranks):
        first[d] = 0
        free[d] = 0
        todo[d] = step[d]
        book[NOW, d] = 0
        book[ENTRIES, d] = 0
        book[OLDEST, d] = 0
        book[REST, d] = 0
        waits[d] = 0
        last_end[d] = 0
        origin[d] = -1 if by_span else 0
        dirty[d] = d
    first[num_ranks] = 0
    when[num_ranks] = NEVER
    total = 0
    for s in range(n):
        first[rank_of[s] + 1] += 1
    for d in range(num_ranks):
        first[d + 1] += first[d]
        which[d] = first[d]
    length = np.int64(0)
    for s in range(n):
        d = rank_of[s]
        q = which[d]
        which[d] = q + 1
        place[s] = q
        member[q] = s
        started_f[s] = 0
        started_b[s] = 0
        started_w[s] = 0
        barred[0, q] = 0
        barred[1, q] = 0
        ready_f[q] = NEVER
        ready_b[q] = NEVER
        urge_f[q] = length
        if with_extra:
            urge_f[q] += extra[0, s, 0]
        length += _way(times, fused, lags, apart, AHEAD, s)
        if vary == 0 and pick == 0:
            if fused[s, 0]:
                todo[d] += num_microbatches * (times[FORWARD, s, 0] + times[WHOLE, s, 0])
                total += 2 * num_microbatches
            else:
                todo[d] += num_microbatches * (times[FORWARD, s, 0] + times[BACKWARD, s, 0] + times[WEIGHT, s, 0])
                total += 3 * num_microbatches
        else:
            for m in range(num_microbatches):
                if fused[s, m & pick]:
                    todo[d] += times[FORWARD, s, m & vary] + times[WHOLE, s, m & vary]
                    total += 2
                else:
                    todo[d] += times[FORWARD, s, m & vary] + times[BACKWARD, s, m & vary] + times[WEIGHT, s, m & vary]
                    total += 3
    length -= bias
    for s in range(n - 1, -1, -1):
        urge_b[place[s]] = length
        if with_extra:
            urge_b[place[s]] += extra[1, s, 0]
        length += _way(times, fused, lags, apart, BACK, s)
    ready_f[place[0]] = 0
    if memory is not None:
        for s in range(n):
            book[REST, rank_of[s]] += size_of(sizes, apart, HELD, s, 0)
            _change_f(change, sizes, apart, memory, rank_of, n, s, 0)
            _change_b(change, sizes, apart, memory, rank_of, n, s, 0)
    for i in range(leaves):
        tree[leaves + i] = min(i, num_ranks)
    for d in range(num_ranks):
        when[d] = NEVER
    for i in range(leaves - 1, 0, -1):
        tree[i] = tree[2 * i]
    num_dirty = num_ranks
    waiting = 0
    look = 0
    count = 0
    while count < total:
        for i in range(num_dirty):
            e = dirty[i]
            now = free[e]
            short = False
            waits_for = np.int64(0)  # ranks that have no room for a result, a bit for each
            look += 1
            again = True
            while again:
                again = False
                begin = NEVER
                best = NEVER
                kind = NOTHING
                chosen = np.int64(-1)
                for q in range(first[e], first[e + 1]):
                    t = max(ready_b[q], now)
                    if t < begin or (t == begin and urge_b[q] < best):
                        admitted = True
                        if memory is not None:
                            s = member[q]
                            if barred[1, q] == look:
                                admitted = False
                            else:
                                peak = change[PEAK_B, s]
                                net = change[NET_B, s]
                                if fused[s, started_b[s] & pick] == 0:
                                    peak += size_of(sizes, apart, EARLY, s, started_b[s])
                                    net += size_of(sizes, apart, KEPT, s, started_b[s])
                                spare = memory[ROOM, e] - book[NOW, e]
                                if started_b[s] == started_b[0]:
                                    admitted = max(peak, net, net + change[LEAVE_B, s]) <= spare
                                elif peak + memory[ARRIVAL, e] + memory[NEXT, e] > spare:
                                    admitted = False
                                elif net > 0:
                                    admitted = net + memory[SLOT, e] + memory[NEXT, e] <= spare
                                if not admitted:
                                    short = True
                        if admitted:
                            begin = t
                            best = urge_b[q]
                            kind = BACKWARD
                            chosen = member[q]
                    t = max(ready_f[q], now)
                    if t < begin or (t == begin and urge_f[q] < best):
                        admitted = True
                        if memory is not None:
                            s = member[q]
                            if barred[0, q] == look:
                                admitted = False
                            else:
                                m = started_f[s]
                                spare = memory[ROOM, e] - book[NOW, e]
                                if m == started_b[0]:
                                    most = max(change[PEAK_F, s], change[NET_F, s])
                                    admitted = max(most, change[NET_F, s] + change[LEAVE_F, s]) <= spare
                                elif change[PEAK_F, s] + memory[ARRIVAL, e] + memory[NEXT, e] > spare:
                                    admitted = False
                                else:
                                    spare -= memory[SLOT, e] + memory[NEXT, e]
                                    if m > book[OLDEST, e]:
                                        spare -= book[REST, e]
                                    admitted = change[NET_F, s] <= spare
                                if not admitted:
                                    short = True
                        if admitted:
                            begin = t
                            best = urge_f[q]
                            kind = FORWARD
                            chosen = member[q]
                if memory is not None and chosen >= 0:
                    out = np.int64(0)
                    if kind == FORWARD and chosen < n - 1:
                        to = rank_of[chosen + 1]
                        m = started_f[chosen]
                        out = size_of(sizes, apart, OUTPUT, chosen, m)
                        lag = times[FORWARD, chosen, m & vary] + lag_of(lags, apart, AHEAD, chosen, m)
                    elif kind == BACKWARD and chosen > 0:
                        to = rank_of[chosen - 1]
                        m = started_b[chosen]
                        out = size_of(sizes, apart, INPUT, chosen, m)
                        whole = fused[chosen, m & pick]
                        lag = times[WHOLE if whole else BACKWARD, chosen, m & vary]
                        lag += lag_of(lags, apart, BACK, chosen, m)
                    if out > 0 and to != e:
                        newer = m - started_b[0]
                        if not _neighbour_admits(to, out, begin + lag, newer, m, memory, book, past, last_end):
                            waits_for |= 1 << (to % SHORT_BIT)
                            again = True
                            barred[0 if kind == FORWARD else 1, place[chosen]] = look
                            begin = NEVER
                            kind = NOTHING
                            chosen = np.int64(-1)
            if begin > now:
                longest = begin - now + slack
                most = np.int64(-1)
                for q in range(first[e], first[e + 1]):
                    s = member[q]
                    if started_w[s] < started_b[s]:
                        w = times[WEIGHT, s, started_w[s] & vary]
                        if w <= longest and w > most:
                            most = w
                            kind = WEIGHT
                            chosen = s
                if memory is not None and short:  # the W that frees most
                    most = np.int64(0)
                    for q in range(first[e], first[e + 1]):
                        s = member[q]
                        if started_w[s] < started_b[s]:
                            freed = size_of(sizes, apart, KEPT, s, started_w[s])
                            if freed > most:
                                most = freed
                                kind = WEIGHT
                                chosen = s
                if kind == WEIGHT:
                    begin = now
            when[e] = begin
            what[e] = kind
            which[e] = chosen
            if memory is not None:
                waiting += (1 if waits_for else 0) - (1 if waits[e] & ~SHORT else 0)
                waits[e] = waits_for | (SHORT if short else 0)
            i_node = (leaves + e) >> 1
            while i_node > 0:
                left = tree[2 * i_node]
                right = tree[2 * i_node + 1]
                tree[i_node] = left if when[left] <= when[right] else right
                i_node >>= 1
        d = tree[1]
        now = when[d]
        if now >= NEVER:
            tree[0] = count
            return NEVER
        s = which[d]
        kind = what[d]
        dirty[0] = d
        num_dirty = 1
        if memory is not None and kind != WEIGHT:  # the neighbour may have filled up since this was decided
            out = np.int64(0)
            if kind == FORWARD and s < n - 1:
                to = rank_of[s + 1]
                m = started_f[s]
                out = size_of(sizes, apart, OUTPUT, s, m)
                lag = times[FORWARD, s, m & vary] + lag_of(lags, apart, AHEAD, s, m)
            elif kind == BACKWARD and s > 0:
                to = rank_of[s - 1]
                m = started_b[s]
                out = size_of(sizes, apart, INPUT, s, m)
                lag = times[WHOLE if fused[s, m & pick] else BACKWARD, s, m & vary]
                lag += lag_of(lags, apart, BACK, s, m)
            if out > 0 and to != d:
                newer = m - started_b[0]
                if not _neighbour_admits(to, out, now + lag, newer, m, memory, book, past, last_end):
                    continue
        if origin[d] < 0:
            origin[d] = now
        if now - origin[d] + todo[d] > cutoff:
            tree[0] = count
            return NEVER
        lag = np.int64(0)
        if kind == FORWARD:
            m = started_f[s]
            started_f[s] = m + 1
            spent = times[FORWARD, s, m & vary]
            end = now + spent
            q = place[s]
            if m + 1 < num_microbatches:
                urge_f[q] += offset
                if with_extra:
                    urge_f[q] += extra[0, s, m + 1] - extra[0, s, m]
                if s > 0:
                    ready_f[q] = arrival[0, s, m + 1] if m + 1 < started_f[s - 1] else NEVER
            else:
                ready_f[q] = NEVER
            if s < n - 1:
                e = rank_of[s + 1]
                lag = lag_of(lags, apart, AHEAD, s, m)
                arrival[0, s + 1, m] = end + lag
                if started_f[s + 1] == m:
                    ready_f[place[s + 1]] = end + lag
                    if e != d:
                        dirty[1] = e
                        num_dirty = 2
            else:
                arrival[1, s, m] = end
                if started_b[s] == m:
                    ready_b[q] = end
        elif kind == BACKWARD:
            m = started_b[s]
            started_b[s] = m + 1
            if fused[s, m & pick]:
                spent = times[WHOLE, s, m & vary]
                if started_w[s] == m:
                    started_w[s] = m + 1
            else:
                spent = times[BACKWARD, s, m & vary]
            end = now + spent
            q = place[s]
            if m + 1 < num_microbatches:
                urge_b[q] += offset
                if with_extra:
                    urge_b[q] += extra[1, s, m + 1] - extra[1, s, m]
                there = started_f[s] if s == n - 1 else started_b[s + 1]
                ready_b[q] = arrival[1, s, m + 1] if m + 1 < there else NEVER
            else:
                ready_b[q] = NEVER
            if s > 0:
                e = rank_of[s - 1]
                lag = lag_of(lags, apart, BACK, s, m)
                arrival[1, s - 1, m] = end + lag
                if started_b[s - 1] == m:
                    ready_b[place[s - 1]] = end + lag
                    if e != d:
                        dirty[1] = e
                        num_dirty = 2
        else:
            m = started_w[s]
            spent = times[WEIGHT, s, m & vary]
            end = now + spent
            started_w[s] = m + 1
            while started_w[s] < started_b[s] and fused[s, started_w[s] & pick]:
                started_w[s] += 1
        if logging:
            log[count, 0] = s
            log[count, 1] = kind
            log[count, 2] = m
            log[count, 3] = now
        if memory is not None:
            before = book[NOW, d]
            if kind == WEIGHT:
                _hold(d, last_end[d], before, before - size_of(sizes, apart, KEPT, s, m), book, past)
            elif kind == FORWARD:
                _hold(d, last_end[d], before + change[PEAK_F, s], before + change[NET_F, s], book, past)
                if s < n - 1 and rank_of[s + 1] != d:
                    e = rank_of[s + 1]
                    _arrive(e, size_of(sizes, apart, OUTPUT, s, m), end + lag, book, past, last_end)
                    dirty[1] = e
                    num_dirty = 2
                if m == book[OLDEST, d]:  # what the oldest micro-batch here still has to enter
                    oldest = NEVER
                    for q in range(first[d], first[d + 1]):
                        oldest = min(oldest, started_f[member[q]])
                    rest = np.int64(0)
                    for q in range(first[d], first[d + 1]):
                        if started_f[member[q]] <= oldest:
                            rest += size_of(sizes, apart, HELD, member[q], oldest)
                    book[OLDEST, d] = oldest
                    book[REST, d] = rest
            else:
                split = 1 - fused[s, m & pick]
                most = before + change[PEAK_B, s] + split * size_of(sizes, apart, EARLY, s, m)
                after = before + change[NET_B, s] + split * size_of(sizes, apart, KEPT, s, m)
                _hold(d, last_end[d], most, after, book, past)
                if s > 0 and rank_of[s - 1] != d:
                    e = rank_of[s - 1]
                    _arrive(e, size_of(sizes, apart, INPUT, s, m), end + lag, book, past, last_end)
                    dirty[1] = e
                    num_dirty = 2
            _next_change(change, sizes, apart, memory, rank_of, n, s, kind, m + 1)
            eased = kind == BACKWARD and s == 0  # another micro-batch is the oldest now: it may use the reserve
            if waiting > 0 or eased:
                changed = ~0 if eased else 1 << (d % SHORT_BIT)
                for e in range(num_ranks):
                    if waits[e] & changed and e != d and (num_dirty == 1 or e != dirty[1]):
                        dirty[num_dirty] = e
                        num_dirty += 1
        last_end[d] = end
        free[d] = end + lag if blocking else end
        todo[d] -= spent
        count += 1
    tree[0] = count
    result = np.int64(0)
    for d in range(num_ranks):
        result = max(result, last_end[d] - max(origin[d], 0) + step[d])
    return result


def stage_costs(pipeline: Pipeline, fused: tuple[bool, ...] | None = None) -> tuple[StageCosts, Ints, Ints | None]:
    """Return the arrays of a pipeline: stage costs, step times by rank, memory (None where no rank is limited).

    Parameters
    ----------
    fused
        Which stages run B instead of I and W; those that may not split do so always.
    """
    n = pipeline.num_stages
    whole = [bool(not pipeline.may_split(s) or (fused is not None and fused[s])) for s in range(n)]
    each = [pipeline.costs(s) for s in range(n)]
    times = [[[cost.action_ns.get(kind, 0) for cost in costs] for costs in each] for kind in ("F", "I", "W", "B")]
    lags = np.array([[_lags(cost) for cost in costs] for costs in each], np.int64).transpose(2, 0, 1)
    sizes = np.array([[_sizes(cost, w) for cost in costs] for costs, w in zip(each, whole, strict=True)], np.int64)
    sizes = sizes.transpose(2, 0, 1)
    costs = StageCosts(
        np.array(pipeline.rank_of, np.int64),
        np.array(times, np.int64),
        np.array(whole, np.int64).reshape(n, 1),
        np.ascontiguousarray(lags[:, :, 0]),
        np.ascontiguousarray(sizes.max(axis=2)),
    )
    if pipeline.apart is not None:
        back = np.where(costs.fused == 1, costs.times[WHOLE], costs.times[BACKWARD])
        way = np.array([costs.times[FORWARD], back]) + lags
        number = np.arange(pipeline.num_microbatches)
        means = way.mean(axis=2).astype(np.int64)
        apart = Apart(np.ascontiguousarray(lags), np.ascontiguousarray(sizes), means, number)
        costs = costs._replace(apart=apart)
    step = np.array(pipeline.step_ns, np.int64)
    if all(limit is None for limit in pipeline.limit_bytes):
        return costs, step, None
    memory = np.zeros((4, pipeline.num_ranks), np.int64)
    for rank, limit in enumerate(pipeline.limit_bytes):
        memory[ROOM, rank] = UNLIMITED if limit is None else limit - pipeline.state_bytes(rank)
    for s, rank in enumerate(pipeline.rank_of):
        reserve(costs.sizes, int(whole[s]), s, rank, memory)
    memory[SLOT] += memory[ARRIVAL]
    return costs, step, memory


def _lags(cost: StageCost) -> tuple[int, int]:
    return cost.forward_transfer_ns, cost.backward_transfer_ns


def _sizes(cost: StageCost, whole: bool) -> tuple[int, ...]:
    """Return the rows HELD to OUTPUT of a stage."""
    size = cost.bytes
    kept, early = (0 if whole else size.weight), (size.weight if cost.recompute else 0)
    at_work = size.workspace + size.transient
    return size.held, kept, early, size.workspace, at_work, size.input, size.output


@njit(cache=True, nogil=True, error_model="numpy")
def reserve(sizes, fused, s, d, memory):  # type: ignore[no-untyped-def]
    """Raise what rank d reserves, besides HELD, to what stage s needs so that one micro-batch can always go on.

    ARRIVAL: a tensor may come while anything runs there. SLOT, to which ARRIVAL is to be added once all stages are
    through: besides it, what runs, or what is left after I until W. NEXT: a tensor of the next oldest micro-batch may
    come meanwhile. Dead ends are rare, not impossible: of random cases with just the room for all that, 7 in 20,000
    had one where what passes between stages is no larger than what they hold, 1 in 2,000 with much larger tensors.
    """
    split = 1 - fused
    running = max(sizes[WORK_F, s], sizes[WORK_B, s] + split * sizes[EARLY, s])
    memory[SLOT, d] = max(memory[SLOT, d], running, split * (sizes[KEPT, s] - sizes[HELD, s]))
    memory[ARRIVAL, d] = max(memory[ARRIVAL, d], sizes[OUTPUT, s], sizes[INPUT, s] - sizes[HELD, s])
    memory[NEXT, d] = max(memory[NEXT, d], sizes[OUTPUT, s], sizes[INPUT, s])


def list_schedule(
    pipeline: Pipeline, rule: tuple[int, int, int], fused: tuple[bool, ...] | None = None, by_span: bool = False
) -> Orders | None:
    """Return the greedy schedule of a pipeline as orders, or None where the rule finds none within the memory.

    Parameters
    ----------
    rule
        (offset, bias, slack) in ns; see `schedule`.
    """
    costs, step, memory = stage_costs(pipeline, fused)
    n, ranks, microbatches = pipeline.num_stages, pipeline.num_ranks, pipeline.num_microbatches
    log = np.zeros((3 * n * microbatches, 4), np.int64)
    modes = (pipeline.p2p == "blocking", by_span)
    extra = np.zeros((2, 0, 0), np.int64)
    scratch = new_scratch(n, ranks, microbatches)
    if schedule(costs, n, ranks, microbatches, step, memory, modes, rule, extra, scratch, NEVER, log) >= NEVER:
        return None
    return orders_of_log(log, costs, ranks)


def orders_of_log(log: Ints, costs: StageCosts, num_ranks: int) -> Orders:
    """Return the orders a schedule's log holds (rows of zeros past its end are left out)."""
    orders: list[list[Action]] = [[] for _ in range(num_ranks)]
    seen: set[Action] = set()
    for stage, kind, microbatch, _ in log.tolist():
        whole = costs.fused[stage, microbatch if costs.fused.shape[1] > 1 else 0]
        letter: ActionKind = "F" if kind == FORWARD else "W" if kind == WEIGHT else "B" if whole else "I"
        action = Action(stage, letter, microbatch)
        if action not in seen:  # the row after the last is all zeros: 0F0, which every schedule starts with
            seen.add(action)
            orders[int(costs.rank[stage])].append(action)
    return tuple(map(tuple, orders))
