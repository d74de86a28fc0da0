"""What every chart of ranks is made of: a row's cells between its sides, the time axis, the legend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.text import Text

from octopipe_cli.render.axis import ticks
from octopipe_cli.render.cells import Cell, Run, Window, action_runs
from octopipe_cli.render.glyphs import IDLE, KIND_NAMES, TONES, Glyphs, texture_style

DIM: Final = "dim"


def bar(row: list[Cell], stages: Sequence[int], glyphs: Glyphs) -> Text:
    """Return a rank's cells between its sides; `stages` are the rank's, which take the tones in turn."""
    line = Text().append(glyphs.side, style=DIM)
    for run in action_runs(row):
        _draw(line, run, stages, glyphs)
    return line.append(glyphs.side, style=DIM)


def _draw(line: Text, run: Run, stages: Sequence[int], glyphs: Glyphs) -> None:
    """Append an action: its micro-batch number where a cell of its texture is left beside it, then the texture."""
    cell, texture = run.cell, glyphs.texture[run.cell.kind]
    if cell.kind == IDLE:
        line.append(texture * run.width, style=DIM)
        return
    tone = TONES[cell.kind][stages.index(cell.stage) % 2 if cell.stage >= 0 else 0]
    number = str(cell.microbatch) if numbered(run) else ""
    line.append(number, style=f"bold #000000 on {tone}")
    line.append(texture * (run.width - len(number)), style=texture_style(cell.kind, tone))


def numbered(run: Run) -> bool:
    """Return whether an action's micro-batch number fits with a cell of texture behind it, which tells its kind."""
    return run.cell.microbatch >= 0 and len(str(run.cell.microbatch)) < run.width


def axis(window: Window, cells: int, indent: int, glyphs: Glyphs) -> Iterator[Text]:
    """Yield the two lines of the time axis, its corner behind so many blanks."""
    unit, marks = ticks(window, cells)
    line = [glyphs.line] * cells
    labels = ""
    if window.left_out_to_ns:
        line[window.place_ns(window.left_out_to_ns) * cells // window.length_ns] = glyphs.gap
    for mark in marks:
        line[mark.cell] = glyphs.tick if line[mark.cell] == glyphs.line else glyphs.gap
        labels = labels.ljust(indent + 1 + mark.cell) + mark.label
    yield Text(" " * indent + glyphs.corner + "".join(line), style=DIM)
    yield Text(f"{labels} {glyphs.plain(unit.name)}", style=DIM)


def legend(kinds: Iterable[str], notes: Iterable[str], glyphs: Glyphs, width: int) -> Iterator[Text]:
    """Yield the lines that explain the kinds of cells which occur, and notes, wrapped to the width."""
    shown = set(kinds)
    entries = []
    for kind, name in KIND_NAMES.items():
        if kind in shown:
            style = texture_style(kind, TONES[kind][0]) if kind in TONES else DIM
            entries.append(Text().append(glyphs.texture[kind] * 2, style=style).append(f" {name}"))
    entries += [Text(note, style=DIM) for note in notes]
    line = Text()
    for entry in entries:
        if line and line.cell_len + 3 + entry.cell_len > width:
            yield line
            line = Text()
        line = line.append("   " if line else "").append(entry)
    yield line
