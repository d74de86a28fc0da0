"""Where searches start: for each placement family and number of stages, a sequence of ranks and cuts that suit it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from octopipe_cli.list_scheduler import Ints
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Request
from octopipe_cli.search.tables import Tables
from octopipe_cli.search.together import keep_together

MOST_STAGES_PER_RANK = 12


class Start(NamedTuple):
    """A start of the search; `family` names it in words for people."""

    family: str
    assignment: Assignment


def rank_sequences(num_ranks: int, num_cuts: int, request: Request) -> list[tuple[str, tuple[int, ...]]]:
    """Return the rank of each stage for every family and number of stages that the request allows.

    Parameters
    ----------
    num_cuts
        How many places the model can be cut at: there is at most one stage more.
    """
    most = min(request.max_stages_per_rank or MOST_STAGES_PER_RANK, MOST_STAGES_PER_RANK)
    # Partitions into nearly single layers leave nothing to choose: beyond 0.8 of them only where the request wants it.
    fitting = [v for v in range(1, most + 1) if v * num_ranks <= max(num_ranks, 0.8 * (num_cuts + 1))]
    up, down = tuple(range(num_ranks)), tuple(reversed(range(num_ranks)))
    found = []
    if request.placement in ("free", "cyclic"):
        found += [(f"cyclic, {v} a rank", up * v) for v in fitting]
    if request.engine == "torchtitan":
        fitting = [v for v in fitting if v == 2]
    if request.placement in ("free", "v"):
        low = 2 if request.placement == "free" else 1
        found += [(f"V, {v} a rank", ((up + down) * v)[: v * num_ranks]) for v in fitting if v >= low]
    return found


def places_freely(request: Request) -> bool:
    """Return whether a stage may sit on any rank: torchtitan places stages itself, cyclic or in a V."""
    return request.placement == "free" and request.engine != "torchtitan"


def even_cuts(tables: Tables, ranks: Sequence[int]) -> tuple[int, ...] | None:
    """Return legal cuts that share the work out by the ranks' speeds, or None where there are too few legal cuts."""
    weight = _weights(tables)
    total = np.concatenate([[0.0], np.cumsum(weight)])
    whole = tables.times[:3, :, -1].sum(axis=0)
    speed = [float(whole.min() / max(whole[tables.grade[rank]], 1)) for rank in ranks]
    passed = [0.0, *accumulate(speed)]
    count, last = len(ranks), len(weight)
    legal = [c for c in range(1, last) if tables.legal[c]]
    if len(legal) < count - 1:
        return None
    cuts, at = [0], 0
    for s in range(1, count):
        goal = total[-1] * passed[s] / passed[-1]
        spare = len(legal) - (count - 1 - s)  # so many legal cuts may be used up or passed by
        while at < spare - 1 and abs(total[legal[at + 1]] - goal) <= abs(total[legal[at]] - goal):
            at += 1
        cuts.append(legal[at])
        at += 1
    return (*cuts, last)


def _weights(tables: Tables) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return a time for each layer: F, I and W, on the average of the ranks."""
    by_grade = np.diff(tables.times[:3].sum(axis=0), axis=1).astype(np.float64)
    return np.asarray(by_grade[tables.grade].mean(axis=0))


def priority_rules(tables: Tables) -> Ints:
    """Return the portfolio of priority rules, shape (rules, 3): offset, bias, slack (see the list scheduler), in ns.

    They are shares of what one micro-batch costs a rank; the offset says how far a micro-batch counts as behind the
    one before, the bias how far backward work goes first, the slack how much too long a W may be.
    """
    each = int(_weights(tables).sum() / len(tables.grade))
    rules = [
        (each * offset // 100, each * bias // 2, each * slack // 100)
        for offset in (2, 5, 10, 20, 35, 60, 100, 150)
        for bias in (0, 1, 2, 4)
        for slack in (0, 1, 3, 8)
    ]
    # In an order that spreads over the portfolio, so that a part of it will do where there is no time for all.
    return np.array([rules[at * 37 % len(rules)] for at in range(len(rules))], np.int64)


def starts(
    tables: Tables, request: Request, recompute: bool, orders: Sequence[Sequence[int]] | None = None
) -> list[Start]:
    """Return a start for each family and number of stages, those left out that would part what must stay together.

    Parameters
    ----------
    orders
        Orders in which a family goes through the ranks; as they are numbered where None.
    """
    num_cuts = int(tables.legal[1:-1].sum())
    weights = _weights(tables).astype(np.int64)
    found = []
    sequences = [
        (family, tuple(order[rank] for rank in ranks))
        for order in orders or [range(len(tables.grade))]
        for family, ranks in rank_sequences(len(tables.grade), num_cuts, request)
    ]
    for family, ranks in sequences:
        cuts = even_cuts(tables, ranks)
        if cuts is not None and all(a < b for a, b in pairwise(cuts)):
            assignment = Assignment(cuts, ranks, (recompute,) * len(ranks))
            free = places_freely(request)
            made = keep_together(tables, weights, assignment, free, request.max_stages_per_rank)
            if made is not None:
                found.append(Start(family, made))
    return found
