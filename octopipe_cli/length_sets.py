"""What a plan's fixed orders cost with each of many sets of lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.lengths import lengths_of
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Orders, RobustFigures
from octopipe_cli.profile import Profile
from octopipe_cli.simulate import simulate

#: By modality, one number a micro-batch.
LengthLists = Mapping[str, Sequence[float]]


class SetTimes(NamedTuple):
    """The step time of each set, in ns, and in how many sets the orders do not fit into memory."""

    step_ns: list[int]
    too_large: int

    @property
    def mean_ns(self) -> int:
        """The mean, nearest ns."""
        return round(Fraction(sum(self.step_ns), len(self.step_ns)))

    @property
    def p95_ns(self) -> int:
        """The 95th percentile by linear interpolation, nearest ns."""
        ordered = sorted(self.step_ns)
        at, rest = divmod((len(ordered) - 1) * 95, 100)
        above = ordered[min(at + 1, len(ordered) - 1)]
        return round(ordered[at] + Fraction((above - ordered[at]) * rest, 100))

    @property
    def worst_ns(self) -> int:
        """The largest."""
        return max(self.step_ns)


def found_with(sets: Sequence[LengthLists]) -> list[LengthLists]:
    """Return the sets that plans are found with: the even-numbered ones, from 0 on."""
    return list(sets[::2])


def reported(sets: Sequence[LengthLists]) -> list[LengthLists]:
    """Return the sets that plans are reported with: the odd-numbered ones."""
    return list(sets[1::2])


def set_times(
    profile: Profile,
    cluster: Cluster,
    assignment: Assignment,
    orders: Orders,
    sets: Sequence[LengthLists],
    p2p: P2P | None = None,
) -> SetTimes:
    """Return what orders cost with each set of lengths."""
    times, too_large = [], 0
    number = len(next(iter(sets[0].values())))
    for lists in sets:
        pipeline = build_pipeline(profile, cluster, assignment, number, p2p, lengths_of(profile, lists, number))
        timeline = simulate(pipeline, orders)
        times.append(timeline.step_time_ns)
        too_large += not timeline.fits
    return SetTimes(times, too_large)


def robust_figures(times: SetTimes, digest: str) -> RobustFigures:
    """Return a plan's record of what it costs over the sets that it was not found with."""
    return RobustFigures(
        digest=digest,
        count=len(times.step_ns),
        mean_ns=times.mean_ns,
        p95_ns=times.p95_ns,
        worst_ns=times.worst_ns,
    )
