"""Assignments made to keep layers together that must share a rank: by other ranks where these are free, else cuts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from octopipe_cli.list_scheduler import Ints
from octopipe_cli.pipeline import Assignment
from octopipe_cli.search.tables import Tables

MOST_TARGETS = 64


def keep_together(
    tables: Tables, weights: Ints, assignment: Assignment, free: bool, most_on_rank: int | None = None
) -> Assignment | None:
    """Return the assignment where it keeps the rules, or one like it that does, or None where none was found.

    Parameters
    ----------
    weights
        The work of each layer, to be shared evenly among the stages if cuts have to change.
    free
        Whether stages may be given to other ranks, of which none may have more than `most_on_rank`.
    """
    groups = [[layer for layer in group if layer >= 0] for group in tables.together.tolist()]
    rank_of = [rank for s, rank in enumerate(assignment.ranks) for _ in assignment.layers(s)]
    if all(len({rank_of[layer] for layer in group}) == 1 for group in groups):
        return assignment
    made = _other_ranks(assignment, groups, len(tables.grade)) if free else None
    if made is not None and most_on_rank and max(map(made.ranks.count, made.ranks)) > most_on_rank:
        made = None
    return made or _other_cuts(tables, weights, assignment, groups, rank_of)


def _other_ranks(assignment: Assignment, groups: list[list[int]], num_ranks: int) -> Assignment | None:
    """Return the assignment with the stages of each group on one rank, no rank left without a stage."""
    stage_of = [s for s in range(assignment.num_stages) for _ in assignment.layers(s)]
    piece_of = list(range(assignment.num_stages))
    for group in groups:
        merged = {piece_of[stage_of[layer]] for layer in group}
        piece_of = [min(merged) if piece in merged else piece for piece in piece_of]
    home = {piece: assignment.ranks[piece] for piece in piece_of}
    for rank in range(num_ranks):
        if rank in home.values():
            continue
        spare = [piece for piece in home if list(home.values()).count(home[piece]) > 1]
        if not spare:
            return None
        home[min(spare, key=lambda piece: (piece_of.count(piece), piece))] = rank
    return Assignment(assignment.cuts, tuple(home[piece] for piece in piece_of), assignment.recompute)


def _other_cuts(
    tables: Tables, weights: Ints, assignment: Assignment, groups: list[list[int]], rank_of: Sequence[int]
) -> Assignment | None:
    """Return the assignment with cuts so that each group is within the stages of one rank, which is tried out."""
    ranks = assignment.ranks
    choices = [list(dict.fromkeys([*(rank_of[layer] for layer in group), *ranks])) for group in groups]
    for targets in islice(product(*choices), MOST_TARGETS):
        allowed = [set(ranks)] * len(weights)
        for group, target in zip(groups, targets, strict=True):
            for layer in group:
                allowed[layer] = allowed[layer] & {target}
        cuts = _even_cuts(weights.tolist(), tables.legal.tolist(), ranks, allowed)
        if cuts is not None:
            return Assignment(cuts, ranks, assignment.recompute)
    return None


def _even_cuts(
    weights: list[int], legal: list[int], ranks: Sequence[int], allowed: list[set[int]]
) -> tuple[int, ...] | None:
    """Return legal cuts of the least sum of squares of the stages' work, each layer on a rank it is allowed on."""
    reached: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, (0,))}
    last = len(weights)
    for s, rank in enumerate(ranks):
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for begin, (cost, cuts) in reached.items():
            work = 0
            for stop in range(begin + 1, last - (len(ranks) - 1 - s) + 1):
                if rank not in allowed[stop - 1]:
                    break
                work += weights[stop - 1]
                if legal[stop] and (stop == last) == (s == len(ranks) - 1):
                    entry = (cost + work * work, (*cuts, stop))
                    if stop not in following or entry < following[stop]:
                        following[stop] = entry
        reached = following
    return reached[last][1] if last in reached else None
