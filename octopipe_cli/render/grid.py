"""Plain tables and joined lines: what rich would lay out differently from version to version is laid out here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

GAP: Final = "  "
LEAST_LAST_COLUMN: Final = 20


def joined(lines: Iterable[Text]) -> Text:
    """Return lines as one text, blanks at their ends cut off, neighbours of one style written in one piece."""
    whole = Text(end="")
    for line in lines:
        line.rstrip()
        pieces: list[tuple[str, str]] = []
        at = 0
        for span in line.spans:
            pieces += [(line.plain[at : span.start], ""), (line.plain[span.start : span.end], str(span.style))]
            at = span.end
        pieces.append((line.plain[at:], ""))
        for style, alike in groupby(((text, style) for text, style in pieces if text), key=lambda piece: piece[1]):
            whole.append("".join(text for text, _ in alike), style=style or str(line.style))
        whole.append("\n")
    return whole


def grid(
    heads: Sequence[str], rows: Sequence[Sequence[str]], align: str, width: int, styles: Sequence[str] = ()
) -> list[Text]:
    """Return a table as lines: a dim head, then the rows.

    Where it is too wide, heads of several words are written in several lines; where that is not enough, the columns
    are written in blocks one below the other, each of which begins with the first column.

    Parameters
    ----------
    heads, rows
        Texts of the cells.
    align
        A letter a column: ``l`` at the left, ``r`` at the right, ``w`` at the left and wrapped to the width (the last
        column alone).
    width
        Columns there are.
    styles
        The style of each row, plain by default.
    """
    columns = [_Column(head, cells, letter) for head, *cells, letter in zip(heads, *rows, align, strict=True)]
    if _needed(columns) > width:
        columns = [column.narrowed() for column in columns]
    lines: list[Text] = []
    for block in _blocks(columns, width):
        lines += [Text()] if lines else []
        lines += _block(block, width, styles or [""] * len(rows))
    return lines


def without(columns: dict[str, list[str]], left_out: Iterable[str], width: int) -> dict[str, list[str]]:
    """Return columns (head -> cells) without those, in their order, that must go for the table to fit the width."""
    kept = dict(columns)
    for head in left_out:
        if _needed([_Column(name, cells, "l").narrowed() for name, cells in kept.items()]) <= width:
            break
        kept.pop(head, None)
    return kept


class _Column(NamedTuple):
    """A column: its head, broken into lines where it is narrowed, its cells, its alignment."""

    head: str
    cells: list[str]
    align: str

    @property
    def heads(self) -> list[str]:
        return self.head.split("\n")

    @property
    def width(self) -> int:
        return max(map(cell_len, [*self.heads, *self.cells]))

    def narrowed(self) -> _Column:
        """Return the column with its head in lines no longer than its longest word or cell."""
        widest = max(map(cell_len, [*self.head.split(), *self.cells, " "]))
        return self._replace(head="\n".join(_broken(self.head, widest)))


def _needed(columns: Sequence[_Column]) -> int:
    widths = [LEAST_LAST_COLUMN if column.align == "w" else column.width for column in columns]
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _blocks(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Return the columns in blocks that fit the width where a column beside the first one does."""
    first, *others = columns
    blocks = [[first]]
    for column in others:
        if len(blocks[-1]) > 1 and _needed([*blocks[-1], column]) > width:
            blocks.append([first])
        blocks[-1].append(column)
    return blocks


def _block(columns: Sequence[_Column], width: int, styles: Sequence[str]) -> list[Text]:
    height = max(len(column.heads) for column in columns)
    heads = [[""] * (height - len(column.heads)) + column.heads for column in columns]
    before = sum(column.width + len(GAP) for column in columns[:-1])
    lines = []
    for row, style in zip(
        zip(*(head + column.cells for head, column in zip(heads, columns, strict=True)), strict=True),
        ["dim"] * height + list(styles),
        strict=True,
    ):
        *cells, last = row
        more: list[str] = []
        if columns[-1].align == "w":
            last, *more = _broken(last, max(width - before, LEAST_LAST_COLUMN))
        padded = (_padded(cell, column) for cell, column in zip([*cells, last], columns, strict=True))
        lines.append(Text(GAP.join(padded), style=style))
        lines += [Text(" " * before + part, style=style) for part in more]
    return lines


def _padded(cell: str, column: _Column) -> str:
    blank = " " * (column.width - cell_len(cell))
    return blank + cell if column.align == "r" else cell + blank


def _broken(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def wrapped(label: str, text: str, width: int) -> list[Text]:
    """Return a labelled text as lines, those after the first indented to where the text begins."""
    first, *others = _broken(text, max(width - len(label), LEAST_LAST_COLUMN))
    head = Text().append(label, style="dim").append(first)
    return [head, *(Text(" " * len(label) + line) for line in others)]
