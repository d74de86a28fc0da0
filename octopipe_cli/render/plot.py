"""A chart of curves in the terminal: lines of braille dots, a sign at each point; in plain characters too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from rich.text import Text

from octopipe_cli.render.chart import Axis, Chart, Curve, x_axis, y_axis
from octopipe_cli.render.glyphs import Glyphs
from octopipe_cli.render.grid import joined

ROWS: Final = 16
MOST_Y_TICKS: Final = 6
LABEL_CELLS: Final = 10
#: The bit of a braille character for its dot in column x and row y.
DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
BRAILLE: Final = 0x2800
#: The main curve's points: marked ones and others.
SIGNS: Final = {False: ("◆", "●"), True: ("#", "o")}
MAIN_STYLE: Final = "bold #0072b2"
#: Okabe and Ito's colours, for the colour-blind; letters at the points tell the curves apart without them.
STYLES: Final = ("#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999999", "#f0e442")


class Canvas:
    """Cells to draw on, two by four dots each; what is drawn later lies on top."""

    def __init__(self, columns: int, glyphs: Glyphs) -> None:
        self.columns, self.glyphs = columns, glyphs
        self.bits: dict[tuple[int, int], int] = {}
        self.signs: dict[tuple[int, int], str] = {}
        self.styles: dict[tuple[int, int], str] = {}

    def dot(self, x: int, y: int, style: str) -> None:
        """Set a dot, counted from the upper left corner."""
        cell = (x // 2, y // 4)
        self.bits[cell] = self.bits.get(cell, 0) | DOTS[x % 2][y % 4]
        self.styles[cell] = style

    def line(self, begin: tuple[int, int], end: tuple[int, int], style: str, gap: int) -> None:
        """Draw a straight line; of its dots one in `gap` is set."""
        steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
        for step in range(0, steps + 1, gap):
            x, y = (a + (b - a) * step / steps for a, b in zip(begin, end, strict=True))
            self.dot(round(x), round(y), style)

    def sign(self, x: int, y: int, sign: str, style: str) -> None:
        """Put a sign on the cell of a dot."""
        cell = (x // 2, y // 4)
        self.signs[cell], self.styles[cell] = sign, style

    def row(self, number: int) -> Text:
        """Return a row of cells."""
        line = Text()
        for column in range(self.columns):
            cell = (column, number)
            bits = self.bits.get(cell, 0)
            mark = "." if self.glyphs.ascii_only else chr(BRAILLE + bits)
            line.append(self.signs.get(cell, mark if bits else " "), style=self.styles.get(cell, ""))
        return line


def plot(chart: Chart, width: int, glyphs: Glyphs) -> Text:
    """Return the chart as text of at most so many columns (60 or more), with its legend; empty without any point."""
    if not chart.main.points:
        return Text()
    columns = width - LABEL_CELLS - 2
    up, across = y_axis(chart, MOST_Y_TICKS), x_axis(chart, columns // 9)
    canvas = Canvas(columns, glyphs)
    for number, curve in enumerate(chart.drawn()):
        _draw(canvas, chart, curve, number, (across, up))
    lines = [
        Text(glyphs.plain(chart.y_axis), style="bold"),
        *_with_labels(canvas, up),
        *_below(across, columns, glyphs),
    ]
    lines.append(Text(chart.x_axis.rjust(width), style="dim"))
    return joined([*lines, *_legend(chart, glyphs, width)])


def _draw(canvas: Canvas, chart: Chart, curve: Curve, number: int, axes: tuple[Axis, Axis]) -> None:
    is_main = curve.name == chart.main.name
    style = MAIN_STYLE if is_main else STYLES[number % len(STYLES)]
    places = [_place(point, axes, canvas.columns) for point in curve.points]
    for begin, end in pairwise(places):
        canvas.line(begin, end, style, 1 if is_main else 3)
    for (x, _), place in zip(curve.points, places, strict=True):
        marked, plain = SIGNS[canvas.glyphs.ascii_only]
        sign = (marked if x in chart.marked else plain) if is_main else _letter(number)
        canvas.sign(*place, sign, style)


def _place(point: tuple[float, float], axes: tuple[Axis, Axis], columns: int) -> tuple[int, int]:
    across, up = axes
    return round(across.share(point[0]) * (2 * columns - 1)), round((1 - up.share(point[1])) * (4 * ROWS - 1))


def _letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[number % 26]


def _with_labels(canvas: Canvas, up: Axis) -> Iterator[Text]:
    """Yield the rows with the names of the ticks before them."""
    names = {round((1 - up.share(value)) * (4 * ROWS - 1)) // 4: label for value, label in up.ticks}
    side, tick = ("|", "+") if canvas.glyphs.ascii_only else ("│", "┤")
    for number in range(ROWS):
        label = names.get(number, "")
        head = Text(f"{label.rjust(LABEL_CELLS)} {tick if label else side}", style="dim")
        yield head.append_text(canvas.row(number))


def _below(across: Axis, columns: int, glyphs: Glyphs) -> Iterator[Text]:
    """Yield the axis of the swept values and their names, each under its tick where there is room."""
    line, labels = [glyphs.line] * columns, ""
    for value, name in across.ticks:
        cell = round(across.share(value) * (2 * columns - 1)) // 2
        line[cell] = glyphs.tick
        at = min(max(0, cell - len(name) // 2), columns - len(name))
        if not labels or at > len(labels):
            labels = labels.ljust(at) + name
    indent = " " * (LABEL_CELLS + 1)
    yield Text(indent + glyphs.corner + "".join(line), style="dim")
    yield Text(f"{indent} {labels}", style="dim")


def _legend(chart: Chart, glyphs: Glyphs, width: int) -> list[Text]:
    marked, plain = SIGNS[glyphs.ascii_only]
    parts = [f"{plain} {chart.main.name}", f"{marked} {chart.main.name}, no smaller value is as good"]
    for number, (curve, drawn) in enumerate(zip(chart.all, chart.drawn(), strict=True)):
        if curve is not chart.main:
            left = len(curve.points) - len(drawn.points)
            note = " (above the chart)" if left and not drawn.points else " (partly above)" if left else ""
            parts.append(f"{_letter(number)} {curve.name}{note}")
    lines, indent = [""], " " * (LABEL_CELLS + 2)
    for part in parts:
        if lines[-1] and len(indent + lines[-1]) + 3 + len(part) > width:
            lines.append("")
        lines[-1] += f"   {part}" if lines[-1] else part
    return [Text(indent + line, style="dim") for line in lines]
