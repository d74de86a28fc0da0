"""Partitions of classic schedules: equal layer counts, and balanced stage times, with or without memory limits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate

from octopipe_cli.cluster import Cluster, Rank
from octopipe_cli.pipeline import layer_times
from octopipe_cli.profile import Profile


def legal_cuts(profile: Profile) -> tuple[int, ...]:
    """Return the layer indices the model may be cut before, 0 and the number of layers at the ends."""
    banned = {layer + 1 for layer in profile.rules.no_cut_after}
    inner = (cut for cut in range(1, profile.num_layers) if cut not in banned)
    return (0, *inner, profile.num_layers)


def equal_cuts(num_layers: int, num_stages: int, legal: Sequence[int]) -> tuple[int, ...] | None:
    """Return cuts with as equal layer counts as may be; None where there are fewer legal pieces than stages.

    Cut r is at L r / S, to the nearest integer, moved to the nearest legal cut (the left one of two) that leaves no
    stage empty.
    """
    pieces = len(legal) - 1
    if pieces < num_stages:
        return None
    chosen = [0]
    for r in range(1, num_stages):
        target = round(num_layers * r / num_stages)
        allowed = range(chosen[-1] + 1, pieces - (num_stages - r) + 1)
        chosen.append(min(allowed, key=lambda at: (abs(legal[at] - target), at)))
    return tuple(legal[at] for at in (*chosen, pieces))


class Balancer:
    """Cuts that minimise the largest stage time, each stage on the hardware of its rank.

    A stage takes whole blocks: the layers between two neighbouring legal cuts.
    """

    def __init__(
        self, profile: Profile, cluster: Cluster, legal: tuple[int, ...], split: bool, recompute: bool
    ) -> None:
        self.profile = profile
        self.members = cluster.members
        self.legal = legal
        self.split = split
        self.recompute = recompute
        self._prefixes: dict[tuple[str, float], list[int]] = {}

    def cuts(
        self, ranks: Sequence[int], within: Sequence[Callable[[int, int], bool]] | None = None
    ) -> tuple[int, ...] | None:
        """Return the leftmost cuts of the least largest stage time; None where there are none.

        Parameters
        ----------
        ranks
            The rank of each stage.
        within
            For each stage, whether it may hold the layers a .. b - 1; what it may hold with more layers, it may
            with fewer. Missing, it may hold any.
        """
        blocks = len(self.legal) - 1
        if blocks < len(ranks):
            return None
        prefixes = [self._prefix(self.members[rank]) for rank in ranks]
        reach = None if within is None else [self._reach(test) for test in within]
        low = min(prefix[-1] for prefix in prefixes) // len(ranks)
        high = low + max(
            max(map(int.__sub__, prefix[1:], prefix)) for prefix in prefixes
        )  # enough where ranks are alike
        if _leftmost(prefixes, reach, high) is None:
            low, high = high + 1, max(prefix[-1] for prefix in prefixes)
            if _leftmost(prefixes, reach, high) is None:
                return None
        while low < high:
            middle = (low + high) // 2
            if _leftmost(prefixes, reach, middle) is None:
                low = middle + 1
            else:
                high = middle
        found = _leftmost(prefixes, reach, high)
        assert found is not None
        return tuple(self.legal[at] for at in found)

    def _prefix(self, member: Rank) -> list[int]:
        """Return the time of the blocks before each legal cut on a rank."""
        key = (member.hardware, member.speed)
        if key not in self._prefixes:
            of_kind: dict[str, int] = {}
            for name, kind in self.profile.kinds.items():
                times = layer_times(kind.times[member.hardware], member.speed)
                apart = self.split and kind.splittable
                back = times.input + times.weight if apart else times.backward
                of_kind[name] = times.forward * (2 if self.recompute else 1) + back
            total = [0, *accumulate(of_kind[name] for name in self.profile.layer_kinds)]
            self._prefixes[key] = [total[cut] for cut in self.legal]
        return self._prefixes[key]

    def _reach(self, test: Callable[[int, int], bool]) -> Callable[[int], int]:
        """Return a function from a block to the furthest cut a stage that starts there may reach."""
        legal = self.legal

        @cache
        def furthest(start: int) -> int:
            ends = range(start + 1, len(legal))
            return start + bisect_left(ends, True, key=lambda end: not test(legal[start], legal[end]))

        return furthest


def _leftmost(
    prefixes: Sequence[Sequence[int]], reach: Sequence[Callable[[int], int]] | None, most: int
) -> list[int] | None:
    """Return the leftmost cuts (as block numbers) with no stage above `most`; None where there are none.

    From the last stage back: which cuts can stage s start at, so that it and all after it can be placed.
    """
    stages, blocks = len(prefixes), len(prefixes[0]) - 1
    starts: list[list[int]] = [[] for _ in range(stages)] + [[blocks]]  # ascending
    for s in reversed(range(stages)):
        after, prefix = starts[s + 1], prefixes[s]
        at = len(after) - 1
        possible = starts[s]
        for start in range(blocks - (stages - s), s - 1, -1):
            while at > 0 and after[at - 1] > start:
                at -= 1
            end = after[at]
            if end <= start:
                continue
            if prefix[end] - prefix[start] <= most and (reach is None or reach[s](start) >= end):
                possible.append(start)
        possible.reverse()
        if not possible:
            return None
    if starts[0][0] != 0:
        return None
    cuts = [0]
    for s in range(stages):
        after = starts[s + 1]
        cuts.append(after[bisect_right(after, cuts[-1])])
    return cuts
