"""Candidates of the local search and how one becomes another, compiled: moves of cuts, ranks, stages and marks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from octopipe_cli.list_scheduler import NEVER, Ints
from octopipe_cli.search.tables import KIND, shares_ranks

#: What a search may change.
MOVE_RANKS, MOVE_COUNT, MOVE_RECOMPUTE, MOVE_FUSE, MOVE_ORDER = 1, 2, 4, 8, 16

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


def new_candidate(num_stages: int, num_apart: int = 0) -> Candidate:
    """Return an empty candidate for up to that many stages, and micro-batches where these differ."""
    cuts, ranks = np.zeros(num_stages + 1, np.int64), np.zeros(num_stages, np.int64)
    return Candidate(cuts, ranks, ranks.copy(), ranks.copy(), np.array([0, NEVER, 0], np.int64), np.arange(num_apart))


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
