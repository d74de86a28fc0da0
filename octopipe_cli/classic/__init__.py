"""The classic schedules on a profile and a cluster, each with its best equal-count and its best balanced partition."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from octopipe_cli.classic.study import MOST_STAGES_PER_RANK, Partition, Study
from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.lengths import Lengths
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Orders, Recompute
from octopipe_cli.profile import Profile
from octopipe_cli.schedules import SCHEDULES
from octopipe_cli.simulate import Timeline

ALL_NAMES: Final = tuple(schedule.name for schedule in SCHEDULES)


@dataclass(frozen=True)
class ClassicRow:
    """A classic schedule on a partition.

    Attributes
    ----------
    schedule
        Its name.
    partition
        ``equal``: as equal layer counts as cuts allow; ``balanced``: least largest stage time.
    stages_per_rank, recompute
        Stages a rank; whether all activations are recomputed.
    assignment, orders, timeline
        Partition and placement, what each rank runs, and when.
    """

    schedule: str
    partition: Partition
    stages_per_rank: int
    recompute: bool
    assignment: Assignment
    orders: Orders
    timeline: Timeline

    @property
    def step_time_ns(self) -> int:
        """The step time."""
        return self.timeline.step_time_ns

    @property
    def span_ns(self) -> int:
        """The longest of the ranks' own spans."""
        return self.timeline.span_ns

    @property
    def bubble_ratio(self) -> float:
        """Idle share of the ranks' time."""
        return self.timeline.bubble_ratio

    @property
    def peak_memory_bytes(self) -> tuple[int, ...]:
        """For each rank, the most it ever holds."""
        return self.timeline.peak_memory_bytes

    @property
    def fits(self) -> bool:
        """Whether every rank stays within its memory limit."""
        return self.timeline.fits

    @property
    def split(self) -> bool:
        """Whether any backward runs as I and W."""
        return any(action.kind == "W" for actions in self.orders for action in actions)

    @property
    def placement(self) -> Literal["cyclic", "v"]:
        """Which way stages run over the ranks."""
        return next(schedule.placement for schedule in SCHEDULES if schedule.name == self.schedule)


def classic_rows(
    profile: Profile,
    cluster: Cluster,
    num_microbatches: int,
    *,
    recompute: Recompute = "auto",
    max_stages_per_rank: int | None = None,
    names: Collection[str] = ALL_NAMES,
    p2p: P2P | None = None,
    lengths: Lengths | None = None,
) -> list[ClassicRow]:
    """Return every classic schedule with its best equal-count and its best balanced partition.

    Best is the least step time among the stage counts that fit the ranks' memory, else the least step time. With
    `recompute` ``auto`` what does not fit is tried with full recomputation too. Left out are partitions
    that break a rule of the profile, schedules with more stages than layers, and interleaving that
    Megatron-LM's rule on group sizes refuses, and what is not among `names`. `p2p` overrides the cluster's.
    Orders are made for equal micro-batches, also where `lengths` gives them lengths of their own.
    """
    study = Study(profile, cluster, num_microbatches, p2p, lengths)
    recomputed = {"none": (False,), "full": (True,), "auto": (False, True)}[recompute]
    most = MOST_STAGES_PER_RANK if max_stages_per_rank is None else min(max_stages_per_rank, MOST_STAGES_PER_RANK)
    partitions: tuple[Partition, ...] = ("equal", "balanced")
    rows = []
    for schedule in SCHEDULES:
        if schedule.name not in names or not schedule.runs(cluster.num_ranks, num_microbatches):
            continue
        counts = [count for count in range(1, most + 1) if schedule.allows(count)]
        study.forget()
        for partition in partitions:
            best = None
            for count in counts:
                for case in study.cases(schedule, partition, count, recomputed):
                    if best is None or _value(case.timeline) < _value(best[1].timeline):
                        best = (count, case)
            if best is not None:
                count, case = best
                orders, again = case.timeline.orders, case.assignment.recompute[0]
                rows.append(ClassicRow(schedule.name, partition, count, again, case.assignment, orders, case.timeline))
    return rows


def _value(timeline: Timeline) -> tuple[bool, int, int]:
    return (not timeline.fits, timeline.step_time_ns, timeline.span_ns)
