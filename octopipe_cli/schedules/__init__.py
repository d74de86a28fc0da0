"""Classic schedules as orders: the actions of every rank, for any number of ranks, micro-batches and stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from octopipe_cli.engines.megatron_orders import interleaved_1f1b, least_group_size, one_f_one_b
from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Orders
from octopipe_cli.schedules.fused import gpipe, looped_bfs
from octopipe_cli.schedules.waves import wave, zigzag
from octopipe_cli.schedules.zerobubble import zb_h1, zb_h2, zb_v, zero_bubble

__all__ = [
    "SCHEDULES",
    "ClassicSchedule",
    "gpipe",
    "interleaved_1f1b",
    "looped_bfs",
    "one_f_one_b",
    "schedule_named",
    "wave",
    "zb_h1",
    "zb_h2",
    "zb_v",
    "zero_bubble",
]


@dataclass(frozen=True)
class ClassicSchedule:
    """A classic schedule.

    Attributes
    ----------
    name
        What `octopipe compare` calls it.
    placement
        ``cyclic``: stage i on rank i mod P; ``v``: down and up the ranks.
    stages_per_rank
        The fewest stages a rank, the most (None: any number), and the step between.
    split
        Whether I and W run apart where stages may be split.
    orders
        Orders of a pipeline with that placement.
    grouped
        Whether it runs by Megatron-LM's rule on group sizes: two ranks at the least, and a legal group size.
    """

    name: str
    placement: Literal["cyclic", "v"]
    stages_per_rank: tuple[int, int | None, int]
    split: bool
    orders: Callable[[Pipeline], Orders]
    grouped: bool = False

    def allows(self, stages_per_rank: int) -> bool:
        """Return whether it runs with that many stages a rank."""
        least, most, step = self.stages_per_rank
        within = least <= stages_per_rank and (most is None or stages_per_rank <= most)
        return within and (stages_per_rank - least) % step == 0

    def runs(self, num_ranks: int, num_microbatches: int) -> bool:
        """Return whether it runs on so many ranks with so many micro-batches."""
        return not self.grouped or (num_ranks > 1 and least_group_size(num_ranks, num_microbatches) is not None)

    def ranks_of_stages(self, num_ranks: int, stages_per_rank: int) -> tuple[int, ...]:
        """Return the rank of each stage."""
        cyclic = self.placement == "cyclic"
        return tuple(range(num_ranks)) * stages_per_rank if cyclic else zigzag(num_ranks, stages_per_rank)


def _per_rank(pipeline: Pipeline) -> int:
    return pipeline.num_stages // pipeline.num_ranks


def _interleaved(pipeline: Pipeline) -> Orders:
    size = least_group_size(pipeline.num_ranks, pipeline.num_microbatches)
    return interleaved_1f1b(pipeline.num_ranks, pipeline.num_microbatches, _per_rank(pipeline), size)


def _looped(pipeline: Pipeline) -> Orders:
    return looped_bfs(pipeline.num_ranks, pipeline.num_microbatches, _per_rank(pipeline))


def _one_f_one_b(pipeline: Pipeline) -> Orders:
    return one_f_one_b(pipeline.num_ranks, pipeline.num_microbatches)


def _wave(pipeline: Pipeline) -> Orders:
    return wave(pipeline.num_ranks, pipeline.num_microbatches, _per_rank(pipeline) // 2)


SCHEDULES: Final = (
    ClassicSchedule("gpipe", "cyclic", (1, 1, 1), False, _looped),
    ClassicSchedule("1f1b", "cyclic", (1, 1, 1), False, _one_f_one_b),
    ClassicSchedule("interleaved-1f1b", "cyclic", (2, None, 1), False, _interleaved, grouped=True),
    ClassicSchedule("looped-bfs", "cyclic", (2, None, 1), False, _looped),
    ClassicSchedule("zb-h1", "cyclic", (1, 1, 1), True, zb_h1),
    ClassicSchedule("zb-h2", "cyclic", (1, 1, 1), True, zb_h2),
    ClassicSchedule("zb-v", "v", (2, 2, 1), True, zb_v),
    ClassicSchedule("wave", "v", (2, None, 2), False, _wave),
)


def schedule_named(name: str) -> ClassicSchedule:
    """Return the classic schedule of that name; raises KeyError where there is none."""
    return {schedule.name: schedule for schedule in SCHEDULES}[name]
