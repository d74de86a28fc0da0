"""Several plans or schedules for the same inputs, one below the other on one time axis: what is saved is seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from rich.text import Text

from octopipe_cli.render.bars import axis, bar, legend, numbered
from octopipe_cli.render.cells import Cell, Window, action_runs, sample
from octopipe_cli.render.console import LEAST_WIDTH
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import joined
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import percent_text, time_text

HEAD: Final = "bold"
BUSY: Final = "busy%"


class Case(NamedTuple):
    """One of those compared."""

    name: str
    timeline: Timeline


def versus(cases: Sequence[Case], width: int = 80, glyphs: Glyphs = BLOCKS) -> Text:
    """Return the chart: for each case its name, with its step time and what it saves on the first one, and its ranks.

    Each row ends where its case's step does; what is blank behind it is the time that the longest takes more.
    """
    width = max(width, LEAST_WIDTH)
    window = Window(0, max(1, *(case.timeline.step_time_ns for case in cases)))
    label_width = max(len("rank"), *(len(str(case.timeline.pipeline.num_ranks - 1)) + 1 for case in cases))
    cells = width - label_width - 2 - len(BUSY) - 1
    lines, shown = [], []
    for case in cases:
        lines.append(_title(case, cases[0], glyphs, width))
        ends_at = -(-case.timeline.step_time_ns * cells // window.length_ns)
        for rank, stages in enumerate(case.timeline.pipeline.stages_of):
            row = sample(case.timeline, rank, window, cells)[:ends_at]
            shown.append(row)
            line = Text(f"{rank} ".rjust(label_width)).append_text(bar(row, stages, glyphs))
            line.append(" " * (cells - ends_at))
            busy = percent_text(case.timeline.busy_ns[rank], case.timeline.step_time_ns)
            lines.append(line.append(busy.rjust(len(BUSY) + 1)))
    lines += axis(window, cells, label_width, glyphs)
    return joined([*lines, *_legend(shown, glyphs, width)])


def _title(case: Case, first: Case, glyphs: Glyphs, width: int) -> Text:
    step, before = case.timeline.step_time_ns, first.timeline.step_time_ns
    said = f": {time_text(step)}"
    if case is not first and step != before:
        difference = f"{time_text(abs(before - step))} ({percent_text(abs(before - step), before)} %)"
        said += f", {difference} {'less' if step < before else 'MORE'}"
    name = Text(glyphs.name(case.name), style=HEAD)
    name.truncate(width - len(said))
    return name.append(glyphs.plain(said))


def _legend(rows: Sequence[list[Cell]], glyphs: Glyphs, width: int) -> Iterator[Text]:
    notes = [f"{BUSY}: of its own step"]
    if any(numbered(run) for row in rows for run in action_runs(row)):
        notes.insert(0, "numbers: micro-batches")
    return legend((cell.kind for row in rows for cell in row), notes, glyphs, width)
