"""Ranks that came, went or are of other hardware."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import Plan, PlanRank


def compare_ranks(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in number and properties of the ranks; neighbours that change alike are one change."""
    was, now = len(old.ranks), len(new.ranks)
    if was != now:
        more = now > was
        ranks = "1 rank" if now == 1 else f"{now} ranks"
        message = (
            f"there {'is' if now == 1 else 'are'} {ranks}, {abs(now - was)} {'more' if more else 'fewer'} than before"
        )
        yield thresholds.change("rank-added" if more else "rank-removed", "$.ranks", message, was, now)
    both = list(zip(old.ranks, new.ranks, strict=False))
    yield from _property(both, "hardware", "rank-hardware-changed", "hardware", thresholds)
    yield from _property(both, "node", "rank-node-changed", "node", thresholds)
    lines = [
        f"rank {rank}: {figures.times(a.step_ns, b.step_ns)}"
        for rank, (a, b) in enumerate(both)
        if a.step_ns != b.step_ns
    ]
    if lines:
        message = f"the optimizer step takes another time on {len(lines)} of {len(both)} ranks"
        yield thresholds.change("rank-step-time-changed", "$.ranks", message, details=figures.listed(lines))


def _property(
    both: list[tuple[PlanRank, PlanRank]], key: str, name: str, what: str, thresholds: Thresholds
) -> Iterator[Change]:
    values = [(getattr(a, key), getattr(b, key)) for a, b in both]
    for (was, now), group in groupby(range(len(values)), key=lambda rank: values[rank]):
        run = list(group)
        if was != now:
            message = f"{figures.span_text('rank', run[0], run[-1])}: {what} {now} instead of {was}"
            yield thresholds.change(name, f"$.ranks[{run[0]}].{key}", message, was, now)
