"""In which order the ranks stand along the model, for placements that go through them in a circle or a V."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final

import msgspec

from octopipe_cli.cluster import Cluster, PairLink, RankGroup
from octopipe_cli.errors import InfeasibleError, LimitError
from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Orders
from octopipe_cli.search.effort import MILLION, Budget

Order = tuple[int, ...]

#: What one order may cost to look at, and how many are looked at.
LOOK: Final = Budget(0.02, 0.02, 0.0, MILLION, ((2, 1, MILLION),), 0, 20 * MILLION)
MOST_LOOKS: Final = 24


def permuted(cluster: Cluster, order: Sequence[int]) -> Cluster:
    """Return the cluster whose rank p is the given one's rank order[p]; links go with their ranks."""
    place = {rank: at for at, rank in enumerate(order)}
    groups = [group for group in cluster.ranks for _ in range(group.count)]
    ranks: list[RankGroup] = [msgspec.structs.replace(groups[rank], count=1) for rank in order]
    pairs: list[PairLink] = [
        msgspec.structs.replace(pair, from_rank=place[pair.from_rank], to_rank=place[pair.to_rank])
        for pair in cluster.links.pairs
    ]
    links = msgspec.structs.replace(cluster.links, pairs=pairs)
    return msgspec.structs.replace(cluster, ranks=ranks, links=links)


def put_back(assignment: Assignment, orders: Orders, order: Sequence[int]) -> tuple[Assignment, Orders]:
    """Return a plan made for the permuted cluster with the ranks' own numbers."""
    ranks = tuple(order[rank] for rank in assignment.ranks)
    by_rank = sorted(range(len(order)), key=lambda place: order[place])
    return Assignment(assignment.cuts, ranks, assignment.recompute), tuple(orders[place] for place in by_rank)


def promising(cluster: Cluster) -> list[Order]:
    """Return orders to begin with: as it is, backwards, slow or small ranks first or last, with and without nodes."""
    members = cluster.members
    keys: list[Callable[[int], Any]] = [
        lambda rank: 0,
        lambda rank: members[rank].speed,
        lambda rank: members[rank].memory_limit_bytes or NEVER,
        lambda rank: members[rank].hardware,
    ]
    found: list[Order] = []
    for key in keys:
        for by_node in (False, True):
            ascending = tuple(
                sorted(range(len(members)), key=lambda rank: (members[rank].node if by_node else 0, key(rank)))
            )
            found += [ascending, ascending[::-1]]
    return _different(cluster, found)


def _different(cluster: Cluster, orders: Sequence[Order]) -> list[Order]:
    """Return orders without those that give the same cluster as an earlier one."""
    seen: dict[tuple[object, ...], Order] = {}
    for order in orders:
        seen.setdefault(_shape(cluster, order), order)
    return list(seen.values())


def _shape(cluster: Cluster, order: Order) -> tuple[object, ...]:
    """Return what an order makes of the cluster, up to the numbers of its nodes."""
    made = permuted(cluster, order)
    nodes = [member.node for member in made.members]
    alike = tuple(member._replace(number=0, node=nodes.index(member.node)) for member in made.members)
    links = tuple(sorted((p.from_rank, p.to_rank, p.bandwidth_gb_per_s or 0.0, p.latency_us) for p in made.links.pairs))
    return alike, links


def best_order(cluster: Cluster, look: Callable[[Cluster], int], over: Callable[[], bool]) -> Order:
    """Return the best order of ranks found: promising ones, then swaps of two from the best of them.

    Parameters
    ----------
    look
        What a short search makes of a cluster, in ns of the objective; it may find nothing.
    over
        Whether to stop.
    """
    known: dict[tuple[object, ...], int] = {}

    def value(order: Order) -> int:
        shape = _shape(cluster, order)
        if shape not in known:
            try:
                known[shape] = NEVER if len(known) >= MOST_LOOKS or over() else look(permuted(cluster, order))
            except (InfeasibleError, LimitError):
                known[shape] = NEVER
        return known[shape]

    best = min(promising(cluster), key=value)
    improved = True
    while improved and len(known) < MOST_LOOKS:
        improved = False
        for other in _swaps(best):
            if value(other) < value(best):
                best, improved = other, True
                break
    return best


def _swaps(order: Order) -> Iterator[Order]:
    for i, j in combinations(range(len(order)), 2):
        swapped = list(order)
        swapped[i], swapped[j] = order[j], order[i]
        yield tuple(swapped)
