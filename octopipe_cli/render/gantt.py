"""The Gantt chart: a row per rank, time from left to right, to scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.text import Text

from octopipe_cli.plan import Plan
from octopipe_cli.render.bars import DIM, axis, bar, legend, numbered
from octopipe_cli.render.cells import Cell, Run, action_runs, sample, stage_runs
from octopipe_cli.render.frame import Frame, make_frame
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import joined
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import percent_text, time_text, with_memory

#: From this many rows on, a row is one line: the pipeline as a whole is of interest then.
TALL_ROWS: Final = 16
HEAD: Final = "bold"


def gantt(
    plan: Plan,
    timeline: Timeline,
    width: int = 80,
    glyphs: Glyphs = BLOCKS,
    from_ns: int = 0,
    to_ns: int | None = None,
    ranks: Sequence[int] | None = None,
    full: bool = False,
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
    full
        Whether a step too long for the width is shown to scale all the same; else the pattern of its steady state, if
        it has one, is shown once, and marked.

    Raises
    ------
    InputError
        Where the time shown is empty or a rank does not exist.
    """
    return gantt_in(plan, make_frame(timeline, width, glyphs, from_ns, to_ns, ranks, full))


def gantt_in(plan: Plan, frame: Frame) -> Text:
    """Return the chart within a frame."""
    timeline = frame.timeline
    chart = _Chart(frame, tuple(sample(timeline, rank, frame.window, frame.cells) for rank in frame.ranks))
    lines = [*_title(plan, frame), *frame.steady_note(), _heading(frame)]
    tall = len(frame.ranks) <= TALL_ROWS and _ruler_is_worth_it(chart)
    for at in range(len(frame.ranks)):
        lines.append(_row(chart, at))
        if tall:
            lines.append(_ruler(chart, at))
    if len(frame.ranks) > 1:
        lines.append(_idle_line(chart))
    lines += [*axis(frame.window, frame.cells, frame.label_width, frame.glyphs), *_legend(chart, tall)]
    return joined(lines)


class _Chart(NamedTuple):
    """A frame and, for each of its ranks, the cells of the row."""

    frame: Frame
    rows: tuple[list[Cell], ...]


def _title(plan: Plan, frame: Frame) -> Iterator[Text]:
    """Yield the name and the size of what is shown, on two lines where one is too short, then the part of it."""
    glyphs, timeline, window = frame.glyphs, frame.timeline, frame.window
    pipeline = timeline.pipeline
    counts = [(pipeline.num_ranks, "rank"), (pipeline.num_stages, "stage"), (pipeline.num_microbatches, "micro-batch")]
    facts = [f"{count} {word if count == 1 else _plural(word)}" for count, word in counts]
    size = glyphs.plain(f"{', '.join(facts)}, {time_text(timeline.step_time_ns)} a step")
    name = Text(glyphs.name(plan.inputs.profile.name), style=HEAD)
    if name.cell_len + len(size) + 2 <= frame.width:
        yield name.append(f"  {size}")
    else:
        name.truncate(frame.width)
        yield name
        yield Text(size, style=HEAD)
    if (window.from_ns, window.to_ns) != (0, max(timeline.step_time_ns, 1)):
        begin, end = time_text(window.from_ns), time_text(window.to_ns)
        yield Text(glyphs.plain(f"shown: {begin} to {end}, the figures are the whole step's"), style=DIM)


def _plural(word: str) -> str:
    return f"{word}es" if word.endswith("ch") else f"{word}s"


def _heading(frame: Frame) -> Text:
    line = Text(f"{'rank'.rjust(frame.label_width)} {frame.bracket()} ", style=DIM)
    for head, wide in zip(frame.stats[0], frame.stat_widths, strict=True):
        line.append(" " + head.rjust(wide))
    return line


def _row(chart: _Chart, at: int) -> Text:
    frame = chart.frame
    rank, timeline = frame.ranks[at], frame.timeline
    busiest = rank in _busiest(timeline)
    line = Text((f"{rank}*" if busiest else f"{rank} ").rjust(frame.label_width), style=HEAD if busiest else "")
    line.append(bar(chart.rows[at], timeline.pipeline.stages_of[rank], frame.glyphs))
    for figure, wide in zip(frame.stats[at + 1], frame.stat_widths, strict=True):
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
    frame = chart.frame
    if all(len(frame.timeline.pipeline.stages_of[rank]) < 2 for rank in frame.ranks):
        return False
    runs = [run for row in chart.rows for run in stage_runs(row) if run.cell.stage >= 0]
    return 3 * sum(run.width for run in runs if _labelled(run)) >= 2 * sum(run.width for run in runs) > 0


def _ruler(chart: _Chart, at: int) -> Text:
    """Return the line below a row: the stage numbers."""
    glyphs = chart.frame.glyphs
    line = Text(" " * chart.frame.label_width + glyphs.side, style=DIM)
    for run in stage_runs(chart.rows[at]):
        if run.cell.stage < 0:
            line.append(" " * run.width)
        else:
            number = str(run.cell.stage) if _labelled(run) else ""
            line.append(number + glyphs.rule * (run.width - len(number)))
    line.append(glyphs.side)
    return line


def _idle_line(chart: _Chart) -> Text:
    """Return the line that shows, for each instant, how many of the rows are idle: the taller, the more."""
    frame, glyphs = chart.frame, chart.frame.glyphs
    line = Text("idle".rjust(frame.label_width))
    line.append(glyphs.side, style=DIM)
    levels = glyphs.levels
    whole = frame.window.length_ns * len(chart.rows)
    for column in zip(*chart.rows, strict=True):
        idle = sum(cell.idle for cell in column)
        line.append(levels[-(-idle * len(levels) // whole) - 1] if idle else " ", style="bold red")
    line.append(glyphs.side, style=DIM)
    share, whole = sum(cell.idle for row in chart.rows for cell in row), whole * frame.cells
    if frame.steady is not None:  # what is left out counts too
        step = frame.timeline.step_time_ns
        share, whole = sum(sum(frame.timeline.bubbles(rank)) for rank in frame.ranks), step * len(frame.ranks)
    line.append(f" {percent_text(share, whole)}%".rjust(frame.stat_widths[0] + 1))
    return line


def _legend(chart: _Chart, tall: bool) -> Iterator[Text]:
    """Return the lines that explain the signs which occur, wrapped to the width."""
    frame = chart.frame
    timeline = frame.timeline
    notes = []
    if any(numbered(run) for row in chart.rows for run in action_runs(row)):
        notes.append("numbers: micro-batches")
    if tall:
        notes.append("below: stages")
    if any(rank in _busiest(timeline) for rank in frame.ranks):
        notes.append("* most work")
    if len(frame.ranks) > 1:
        notes.append("idle: share of the ranks shown")
    notes.append("bubble%: before/between/after, of the step")
    if with_memory(timeline):
        notes.append("GiB: peak/limit" if timeline.fits else "GiB: peak/limit, ! over it")
    return legend((cell.kind for row in chart.rows for cell in row), notes, frame.glyphs, frame.width)
