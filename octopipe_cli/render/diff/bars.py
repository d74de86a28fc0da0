"""Ranks before and after, one above the other, to one time scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.text import Text

from octopipe_cli.diff.change import PlanDiff
from octopipe_cli.errors import OctopipeError
from octopipe_cli.plan import Plan
from octopipe_cli.render.bars import DIM, axis, bar, legend, numbered
from octopipe_cli.render.cells import Cell, Window, action_runs, sample
from octopipe_cli.render.glyphs import Glyphs
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import percent_text

#: Ranks drawn of a comparison: those whose work changed most.
MOST_RANKS: Final = 4
BUSY: Final = "busy%"


def changed_ranks(report: PlanDiff, width: int, glyphs: Glyphs) -> Iterator[Text]:
    """Yield the lines of the chart of the ranks that changed most; none where no rank did, or a plan does not hold."""
    timelines = _timelines(report)
    if timelines is None:
        return
    changed = _changed(*timelines)
    if not changed:
        return
    chosen = sorted(sorted(changed, key=lambda rank: (-_difference_ns(*timelines, rank), rank))[:MOST_RANKS])
    window = Window(0, max(1, *(timeline.step_time_ns for timeline in timelines)))
    label_width = len(f"rank {max(chosen)} before")
    cells = width - label_width - 2 - 1 - len(BUSY)
    yield Text(f"{_heading(len(changed), len(chosen))}, before above after", style=DIM)
    rows: list[list[Cell]] = []
    for rank in chosen:
        label = f"rank {rank} "
        for timeline, when in zip(timelines, ("before", "after"), strict=True):
            if rank >= timeline.pipeline.num_ranks:
                continue
            rows.append(sample(timeline, rank, window, cells))
            line = Text(label + when.rjust(label_width - len(label)))
            line.append(bar(rows[-1], timeline.pipeline.stages_of[rank], glyphs))
            yield line.append(percent_text(timeline.busy_ns[rank], timeline.step_time_ns).rjust(len(BUSY) + 1))
            label = " " * len(label)
    yield from axis(window, cells, label_width, glyphs)
    notes = [f"{BUSY}: of its plan's step"]
    if any(numbered(run) for row in rows for run in action_runs(row)):
        notes.insert(0, "numbers: micro-batches")
    yield from legend((cell.kind for row in rows for cell in row), notes, glyphs, width)


def _heading(changed: int, chosen: int) -> str:
    if changed == chosen:
        return "the rank that changed" if changed == 1 else f"the {changed} ranks that changed"
    return f"the {chosen} most changed of {changed} ranks"


def _timelines(report: PlanDiff) -> tuple[Timeline, Timeline] | None:
    if report.old is None or report.new is None or not report.changes:
        return None
    old, new = _replayed(report.old), _replayed(report.new)
    return None if old is None or new is None else (old, new)


def _replayed(plan: Plan) -> Timeline | None:
    try:
        return replay(plan, "plan")
    except OctopipeError:
        return None  # a change of its own says what does not hold


def _changed(old: Timeline, new: Timeline) -> list[int]:
    """Return the ranks that do something else, or at another time; one that came or went is one too."""
    most = max(old.pipeline.num_ranks, new.pipeline.num_ranks)
    return [rank for rank in range(most) if _doings(old, rank) != _doings(new, rank)]


def _doings(timeline: Timeline, rank: int) -> object:
    if rank >= timeline.pipeline.num_ranks:
        return None
    return timeline.orders[rank], timeline.start_ns[rank], timeline.end_ns[rank]


def _difference_ns(old: Timeline, new: Timeline, rank: int) -> int:
    """Return by how much a rank's busy time differs; all of it where the rank came or went."""
    times = [timeline.busy_ns[rank] if rank < timeline.pipeline.num_ranks else 0 for timeline in (old, new)]
    return abs(times[1] - times[0])
