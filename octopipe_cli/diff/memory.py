"""What a plan needs of each rank's memory, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from octopipe_cli.diff import figures
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds, growth
from octopipe_cli.plan import Plan
from octopipe_cli.words import size_text


class RankMemory(NamedTuple):
    """Memory of a rank, in bytes; `limit` is None where unlimited."""

    place: int
    peak: int
    engine: int
    limit: int | None

    @property
    def headroom(self) -> int | None:
        """What is left of the limit; None where there is none."""
        return None if self.limit is None else self.limit - self.peak - self.engine


def memory_of(plan: Plan) -> dict[int, RankMemory]:
    """Return the memory of each rank that the plan predicts something of."""
    return {
        said.rank: RankMemory(
            place, said.peak_memory_bytes, said.engine_memory_bytes, plan.ranks[said.rank].memory_limit_bytes
        )
        for place, said in enumerate(plan.predicted.ranks)
        if said.rank < len(plan.ranks)
    }


def least_headroom(plan: Plan) -> tuple[int, int] | None:
    """Return (bytes left, rank) of the rank with least left of its memory limit; None where no rank has one."""
    left = [(memory.headroom, rank) for rank, memory in memory_of(plan).items() if memory.headroom is not None]
    return min(left, default=None)


def compare_memory(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield what differs in the memory of ranks that both plans have."""
    before, after = memory_of(old), memory_of(new)
    for rank, b in after.items():
        a = before.get(rank)
        if a is None:
            continue
        path = f"$.predicted.ranks[{b.place}]"
        if a.peak != b.peak:
            grows = b.peak > a.peak
            message = f"the peak memory of rank {rank} {'grows' if grows else 'falls'} from"
            yield thresholds.change(
                "rank-memory-higher" if grows else "rank-memory-lower",
                f"{path}.peak_memory_bytes",
                f"{message} {figures.sizes(a.peak, b.peak)}",
                a.peak,
                b.peak,
                amount=growth(a.peak, b.peak),
                details=() if b.headroom is None else (f"{figures.headroom(b.headroom)} of its limit are left",),
            )
        if a.engine != b.engine:
            grows = b.engine > a.engine
            message = f"the engine keeps {'more' if grows else 'less'} on rank {rank}: from"
            yield thresholds.change(
                "engine-memory-higher" if grows else "engine-memory-lower",
                f"{path}.engine_memory_bytes",
                f"{message} {figures.sizes(a.engine, b.engine)}",
                a.engine,
                b.engine,
                amount=growth(a.engine, b.engine),
            )
        yield from _headroom(rank, a, b, thresholds)
    yield from _limits(old, new, thresholds)


def _headroom(rank: int, a: RankMemory, b: RankMemory, thresholds: Thresholds) -> Iterator[Change]:
    """Yield whether the headroom falls below the least, or rises from below it; None is more than any number."""
    least = thresholds.min_headroom_bytes
    path = f"$.predicted.ranks[{b.place}].peak_memory_bytes"
    was, now = a.headroom, b.headroom
    if was == now:
        return
    if now is not None and now < least and (was is None or now < was):
        yield below_headroom(rank, b, was, thresholds)
    elif was is not None and was < least:
        message = f"rank {rank} has {_headroom_text(now)} again; before, {figures.headroom(was)} were left"
        yield thresholds.change("headroom-recovered", path, message, was, now)


def below_headroom(rank: int, memory: RankMemory, was: int | None, thresholds: Thresholds) -> Change:
    """Return the finding that a rank has less left of its memory than it must."""
    left = memory.headroom
    assert left is not None
    asked = thresholds.min_headroom_bytes
    if left < 0:
        message = f"rank {rank} exceeds its memory limit by {figures.headroom(-left)}"
    else:
        message = f"rank {rank} has {figures.headroom(left)} of memory left, {figures.headroom(asked)} are asked for"
    details = [] if was is None else [f"before: {figures.headroom(was)} left"]
    path = f"$.predicted.ranks[{memory.place}].peak_memory_bytes"
    return thresholds.change("headroom-below", path, message, was, left, details=details)


def _headroom_text(left: int | None) -> str:
    return "no memory limit" if left is None else f"{figures.headroom(left)} of memory left"


def _limits(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    for rank, (a, b) in enumerate(zip(old.ranks, new.ranks, strict=False)):
        was, now = a.memory_limit_bytes, b.memory_limit_bytes
        if was == now:
            continue
        if was is None or now is None:
            lower = was is None
            before, after = ("unlimited" if x is None else size_text(x) for x in (was, now))
            words = f"{before} to {after}"
        else:
            lower = now < was
            words = figures.sizes(was, now)
        yield thresholds.change(
            "memory-limit-lower" if lower else "memory-limit-higher",
            f"$.ranks[{rank}].memory_limit_bytes",
            f"the memory limit of rank {rank} {'falls' if lower else 'grows'} from {words}",
            was,
            now,
            amount=float("inf") if was is None or now is None else growth(was, now),
        )
