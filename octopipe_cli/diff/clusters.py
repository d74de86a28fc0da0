"""What differs in the clusters that two plans were made for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import msgspec

from octopipe_cli.cluster import Cluster, Link, RankGroup
from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.formats import show


def compare_clusters(old: Cluster, new: Cluster, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in ranks, links, overhead and transfers; paths are the new cluster's."""
    a, b = _ranks(old), _ranks(new)
    lines = list(_rank_lines(a, b))
    if lines:
        message = f"{lines[0]}" if len(lines) == 1 else "the ranks of the cluster changed"
        yield thresholds.change(
            "cluster-ranks-changed", "cluster: $.ranks", message, len(a), len(b), details=figures.listed(lines)
        )
    lines = list(_link_lines(old, new))
    if lines:
        message = f"{lines[0]}" if len(lines) == 1 else "the links of the cluster changed"
        yield thresholds.change("cluster-links-changed", "cluster: $.links", message, details=figures.listed(lines))
    was, now = old.action_overhead_us, new.action_overhead_us
    if was != now:
        message = f"an action costs {now:g} us more than its work, instead of {was:g} us"
        yield thresholds.change("cluster-overhead-changed", "cluster: $.action_overhead_us", message, was, now)
    if old.p2p != new.p2p:
        message = f"transfers of the cluster are {new.p2p} instead of {old.p2p}"
        yield thresholds.change("cluster-p2p-changed", "cluster: $.p2p", message, old.p2p, new.p2p)


def _ranks(cluster: Cluster) -> list[RankGroup]:
    """Return what each rank is, groups written out."""
    return [msgspec.structs.replace(group, count=1) for group in cluster.ranks for _ in range(group.count)]


def _rank_lines(a: list[RankGroup], b: list[RankGroup]) -> Iterator[str]:
    """Yield what changed of the ranks; neighbours that change alike share a line."""
    if len(a) != len(b):
        yield f"{len(b)} ranks instead of {len(a)}"
    both = list(zip(a, b, strict=False))
    for (was, now), group in groupby(range(len(both)), key=lambda rank: both[rank]):
        parts = _fields(was, now)
        if parts:
            run = list(group)
            yield f"{figures.span_text('rank', run[0], run[-1])}: {', '.join(parts)}"


def _link_lines(old: Cluster, new: Cluster) -> Iterator[str]:
    for key, what in (("within_node", "within a node"), ("between_nodes", "between nodes")):
        parts = _fields(getattr(old.links, key), getattr(new.links, key))
        if parts:
            yield f"links {what}: {', '.join(parts)}"
    before, after = ({(pair.from_rank, pair.to_rank): pair for pair in x.links.pairs} for x in (old, new))
    for ends in dict.fromkeys((*before, *after)):
        a, b = before.get(ends), after.get(ends)
        link = f"the link from rank {ends[0]} to rank {ends[1]}"
        if a is None or b is None:
            yield f"{link} is {'gone' if b is None else 'new'}"
        elif parts := _fields(a, b):
            yield f"{link}: {', '.join(parts)}"


def _fields(a: Link | RankGroup, b: Link | RankGroup) -> list[str]:
    """Return the fields that differ, in words."""
    parts = []
    for field in a.__struct_fields__:
        was, now = getattr(a, field), getattr(b, field)
        if was != now:
            parts.append(f"{field} {_text(now)} instead of {_text(was)}")
    return parts


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else show(value)
