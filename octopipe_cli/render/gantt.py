"""The Gantt chart: a row per rank, time from left to right, to scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from octopipe_cli.errors import InputError
from octopipe_cli.plan import Plan
from octopipe_cli.render.bars import DIM, axis, bar, legend, numbered
from octopipe_cli.render.cells import Cell, Run, Window, action_runs, sample, stage_runs
from octopipe_cli.render.console import LEAST_WIDTH
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import joined
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import gibibyte_text, percent_text, time_text, with_memory

#: From this many rows on, a row is one line: the pipeline as a whole is of interest then.
TALL_ROWS: Final = 16
HEAD: Final = "bold"


@dataclass(frozen=True)
class _Chart:
    """What the lines of one chart have in common."""

    timeline: Timeline
    glyphs: Glyphs
    window: Window
    ranks: tuple[int, ...]
    label_width: int
    cells: int
    rows: tuple[list[Cell], ...]
    stats: tuple[tuple[str, ...], ...]
    stat_widths: tuple[int, ...]


def gantt(
    plan: Plan,
    timeline: Timeline,
    width: int = 80,
    glyphs: Glyphs = BLOCKS,
    from_ns: int = 0,
    to_ns: int | None = None,
    ranks: Sequence[int] | None = None,
) -> Text:
    """Return the chart of a plan's timeline, at most `width` columns wide (at least 60).

    Parameters
    ----------
    plan, timeline
        The plan and its replay.
    width
        Columns to fill.
    glyphs
        Characters to draw with.
    from_ns, to_ns
        The time shown; the whole step by default.
    ranks
        The rows shown, in this order; all by default.

    Raises
    ------
    InputError
        Where the time shown is empty or a rank does not exist.
    """
    width = max(width, LEAST_WIDTH)
    chart = _layout(timeline, width, glyphs, _window(timeline, from_ns, to_ns), ranks)
    lines = [*_title(plan, chart, width), _heading(chart)]
    tall = len(chart.ranks) <= TALL_ROWS and _ruler_is_worth_it(chart)
    for at in range(len(chart.ranks)):
        lines.append(_row(chart, at))
        if tall:
            lines.append(_ruler(chart, at))
    if len(chart.ranks) > 1:
        lines.append(_idle_line(chart))
    lines += [*axis(chart.window, chart.cells, chart.label_width, glyphs), *_legend(chart, width, tall)]
    return joined(lines)


def _window(timeline: Timeline, from_ns: int, to_ns: int | None) -> Window:
    step = max(timeline.step_time_ns, 1)
    end = step if to_ns is None else min(to_ns, step)
    if not 0 <= from_ns < end:
        raise InputError(
            "no time to show",
            found=f"from {time_text(from_ns)} to {time_text(end)}",
            expected=f"a part of the step, 0 to {time_text(step)}",
        )
    return Window(from_ns, end)


def _layout(timeline: Timeline, width: int, glyphs: Glyphs, window: Window, wanted: Sequence[int] | None) -> _Chart:
    number = timeline.pipeline.num_ranks
    ranks = tuple(range(number)) if wanted is None else tuple(wanted)
    for rank in ranks:
        if not 0 <= rank < number:
            raise InputError(f"no rank {rank}", expected=f"0 to {number - 1}")
    digits = 1 if width >= 100 else 0
    stats = (_stat_heads(timeline), *(_stats(timeline, rank, digits, glyphs) for rank in ranks))
    widths = tuple(max(map(len, column)) for column in zip(*stats, strict=True))
    label_width = max(len("rank"), len(str(number - 1)) + 1)
    # label, side, cells, side, then each figure behind a blank
    cells = width - label_width - 2 - sum(wide + 1 for wide in widths)
    rows = tuple(sample(timeline, rank, window, cells) for rank in ranks)
    return _Chart(timeline, glyphs, window, ranks, label_width, cells, rows, stats, widths)


def _stat_heads(timeline: Timeline) -> tuple[str, ...]:
    return ("busy%", "bubble%", "GiB")[: 3 if with_memory(timeline) else 2]


def _stats(timeline: Timeline, rank: int, digits: int, glyphs: Glyphs) -> tuple[str, ...]:
    step = timeline.step_time_ns
    busy = percent_text(timeline.busy_ns[rank], step)
    split = "/".join(percent_text(part, step, digits) for part in timeline.bubbles(rank))
    if not with_memory(timeline):
        return busy, split
    limit, peak = timeline.pipeline.limit_bytes[rank], timeline.peak_memory_bytes[rank]
    if limit is None:
        return busy, split, f"{gibibyte_text(peak)}/{glyphs.infinity}"
    return busy, split, f"{gibibyte_text(peak)}/{gibibyte_text(limit)}{'!' if peak > limit else ''}"


def _title(plan: Plan, chart: _Chart, width: int) -> Iterator[Text]:
    """Yield the name and the size of what is shown, on two lines where one is too short, then the part of it."""
    glyphs, timeline = chart.glyphs, chart.timeline
    pipeline = timeline.pipeline
    counts = [(pipeline.num_ranks, "rank"), (pipeline.num_stages, "stage"), (pipeline.num_microbatches, "micro-batch")]
    facts = [f"{count} {word if count == 1 else _plural(word)}" for count, word in counts]
    size = glyphs.plain(f"{', '.join(facts)}, {time_text(timeline.step_time_ns)} a step")
    name = Text(glyphs.name(plan.inputs.profile.name), style=HEAD)
    if name.cell_len + len(size) + 2 <= width:
        yield name.append(f"  {size}")
    else:
        name.truncate(width)
        yield name
        yield Text(size, style=HEAD)
    if (chart.window.from_ns, chart.window.to_ns) != (0, max(timeline.step_time_ns, 1)):
        begin, end = time_text(chart.window.from_ns), time_text(chart.window.to_ns)
        yield Text(glyphs.plain(f"shown: {begin} to {end}, the figures are the whole step's"), style=DIM)


def _plural(word: str) -> str:
    return f"{word}es" if word.endswith("ch") else f"{word}s"


def _heading(chart: _Chart) -> Text:
    line = Text("rank".rjust(chart.label_width) + " " * (chart.cells + 2), style=DIM)
    for head, wide in zip(chart.stats[0], chart.stat_widths, strict=True):
        line.append(" " + head.rjust(wide))
    return line


def _row(chart: _Chart, at: int) -> Text:
    rank, glyphs = chart.ranks[at], chart.glyphs
    busiest = rank in _busiest(chart.timeline)
    line = Text((f"{rank}*" if busiest else f"{rank} ").rjust(chart.label_width), style=HEAD if busiest else "")
    line.append(bar(chart.rows[at], chart.timeline.pipeline.stages_of[rank], glyphs))
    for figure, wide in zip(chart.stats[at + 1], chart.stat_widths, strict=True):
        line.append(" " + figure.rjust(wide), style="bold red" if figure.endswith("!") else HEAD if busiest else "")
    return line


def _busiest(timeline: Timeline) -> tuple[int, ...]:
    """Return the ranks with most work: where the step is decided; none where all have the same."""
    most = max(timeline.busy_ns)
    found = tuple(rank for rank, busy in enumerate(timeline.busy_ns) if busy == most)
    return found if len(found) < len(timeline.busy_ns) else ()


def _labelled(run: Run) -> bool:
    """Return whether a stage's number fits below a run of its cells, with a cell of line behind it."""
    return run.cell.stage >= 0 and len(str(run.cell.stage)) < run.width


def _ruler_is_worth_it(chart: _Chart) -> bool:
    """Return whether stage numbers fit for most cells that show some stage, where ranks have several."""
    if all(len(chart.timeline.pipeline.stages_of[rank]) < 2 for rank in chart.ranks):
        return False
    runs = [run for row in chart.rows for run in stage_runs(row) if run.cell.stage >= 0]
    return 3 * sum(run.width for run in runs if _labelled(run)) >= 2 * sum(run.width for run in runs) > 0


def _ruler(chart: _Chart, at: int) -> Text:
    """Return the line below a row: the stage numbers."""
    line = Text(" " * chart.label_width + chart.glyphs.side, style=DIM)
    for run in stage_runs(chart.rows[at]):
        if run.cell.stage < 0:
            line.append(" " * run.width)
        else:
            number = str(run.cell.stage) if _labelled(run) else ""
            line.append(number + chart.glyphs.rule * (run.width - len(number)))
    line.append(chart.glyphs.side)
    return line


def _idle_line(chart: _Chart) -> Text:
    """Return the line that shows, for each instant, how many of the rows are idle: the taller, the more."""
    line = Text("idle".rjust(chart.label_width))
    line.append(chart.glyphs.side, style=DIM)
    levels = chart.glyphs.levels
    whole = chart.window.length_ns * len(chart.rows)
    for column in zip(*chart.rows, strict=True):
        idle = sum(cell.idle for cell in column)
        line.append(levels[-(-idle * len(levels) // whole) - 1] if idle else " ", style="bold red")
    line.append(chart.glyphs.side, style=DIM)
    share = sum(cell.idle for row in chart.rows for cell in row)
    line.append(f" {percent_text(share, whole * chart.cells)}%".rjust(chart.stat_widths[0] + 1))
    return line


def _legend(chart: _Chart, width: int, tall: bool) -> Iterator[Text]:
    """Return the lines that explain the signs which occur, wrapped to the width."""
    glyphs, timeline = chart.glyphs, chart.timeline
    notes = []
    if any(numbered(run) for row in chart.rows for run in action_runs(row)):
        notes.append("numbers: micro-batches")
    if tall:
        notes.append("below: stages")
    if any(rank in _busiest(timeline) for rank in chart.ranks):
        notes.append("* most work")
    if len(chart.ranks) > 1:
        notes.append("idle: share of the ranks shown")
    notes.append("bubble%: before/between/after, of the step")
    if with_memory(timeline):
        notes.append("GiB: peak/limit" if timeline.fits else "GiB: peak/limit, ! over it")
    return legend((cell.kind for row in chart.rows for cell in row), notes, glyphs, width)
