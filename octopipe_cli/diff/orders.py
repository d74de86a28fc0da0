"""Which ranks run their actions in another order, and by how much."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from octopipe_cli.diff.change import Change
from octopipe_cli.diff.figures import span_text
from octopipe_cli.diff.layers import Alignment
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import TOKEN, Plan


class OrderChange(NamedTuple):
    """How a rank's order differs.

    Attributes
    ----------
    first
        The place of the first action that differs.
    moved, gone, added
        How many actions of both orders stand elsewhere (the fewest that explain it), how many one order alone has.
    """

    first: int
    moved: int
    gone: int
    added: int


def compare_orders(both: Alignment, thresholds: Thresholds) -> Iterator[Change]:
    """Yield a change for each rank of both plans whose order differs; renumbered stages alone are no difference."""
    names = _names(both)
    for rank, (a, b) in enumerate(zip(both.old.orders, both.new.orders, strict=False)):
        if names is None and a == b:
            continue
        was, now = " ".join(a).split(), " ".join(b).split()
        change = order_change(was if names is None else [_renamed(token, names) for token in was], now)
        if change is not None:
            yield _change(both, rank, was, now, change, thresholds)


def _names(both: Alignment) -> dict[str, str] | None:
    """Return the new number of each old stage, as text; None where all keep theirs."""
    matched = both.stages
    count = len(both.old.stages)
    if count == len(both.new.stages) and all(matched.get(stage) == stage for stage in range(count)):
        return None
    return {str(a): str(b) for a, b in matched.items()}


def _renamed(token: str, names: dict[str, str]) -> str:
    """Return an old plan's action in the new plan's stage numbers; one whose stage is gone stays its own."""
    match = TOKEN.fullmatch(token)
    if match is None:
        return token
    stage = names.get(match[1])
    return f"{match[1]}?{token}" if stage is None else f"{stage}{match[2]}{match[3]}"


def order_change(was: Sequence[str], now: Sequence[str]) -> OrderChange | None:
    """Return how two orders differ, None where they do not.

    Actions stand once in an order, so the longest common subsequence is a longest increasing one of old places
    (O(n log n); Fredman 1975, doi:10.1016/0012-365X(75)90103-X).
    """
    if was == now:
        return None
    least = min(len(was), len(now))
    first = next((i for i in range(least) if was[i] != now[i]), least)
    place = {token: at for at, token in enumerate(was)}
    known = [place[token] for token in now if token in place]
    tails: list[int] = []
    for at in known:
        where = bisect_left(tails, at)
        tails[where : where + 1] = [at]
    return OrderChange(first, len(known) - len(tails), len(was) - len(known), len(now) - len(known))


def _change(
    both: Alignment, rank: int, was: Sequence[str], now: Sequence[str], change: OrderChange, thresholds: Thresholds
) -> Change:
    first = change.first
    a, b = (order[first] if first < len(order) else None for order in (was, now))
    renamed = _names(both) is not None
    words = [
        f"{token}{_layers(plan, token) if renamed else ''}" if token else "the end"
        for plan, token in ((both.old, a), (both.new, b))
    ]
    parts = []
    if change.moved:
        parts.append(f"{change.moved} of {len(now)} actions stand elsewhere")
    if change.gone or change.added:
        parts.append(f"{change.gone} actions are gone and {change.added} new")
    message = (
        f"rank {rank} runs another order: {', '.join(parts)}; first at place {first}: {words[1]} instead of {words[0]}"
    )
    details = [f"{label}: {_around(order, first)}" for label, order in (("before", was), ("now", now))]
    if renamed:
        details.append("stages were renumbered: they are compared by their layers, and named as each plan numbers them")
    return thresholds.change("order-changed", f"$.orders[{rank}]", message, a, b, details=details)


def _layers(plan: Plan, token: str) -> str:
    """Return the layers of an action's stage in brackets, where it has any."""
    match = TOKEN.fullmatch(token)
    if match is None or int(match[1]) >= len(plan.stages):
        return ""
    first, stop = plan.stages[int(match[1])].layers
    return f" ({span_text('layer', first, stop - 1)})" if first < stop else ""


def _around(order: Sequence[str], at: int) -> str:
    """Return a few actions around a place."""
    begin, end = max(at - 3, 0), at + 8
    return f"{'... ' if begin else ''}{' '.join(order[begin:end])}{' ...' if end < len(order) else ''}"
