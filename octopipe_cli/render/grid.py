"""Plain tables and joined lines: what rich would lay out differently from version to version is laid out here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

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


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str, width: int) -> list[Text]:
    """Return a table as lines: a dim head, then the rows.

    Parameters
    ----------
    heads, rows
        Texts of the cells.
    align
        A letter a column: ``l`` at the left, ``r`` at the right, ``w`` at the left and wrapped to the width (the last
        column alone).
    width
        Columns there are.
    """
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    before = sum(wide + len(GAP) for wide in widths[:-1])
    lines = []
    for number, row in enumerate([heads, *rows]):
        style = "dim" if number == 0 else ""
        *cells, last = row
        more: list[str] = []
        if align[-1] == "w":
            last, *more = _broken(last, max(width - before, LEAST_LAST_COLUMN))
        padded = (_padded(*column) for column in zip([*cells, last], widths, align, strict=True))
        lines.append(Text(GAP.join(padded), style=style))
        lines += [Text(" " * before + part, style=style) for part in more]
    return lines


def _padded(cell: str, width: int, align: str) -> str:
    blank = " " * (width - cell_len(cell))
    return blank + cell if align == "r" else cell + blank


def _broken(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def wrapped(label: str, text: str, width: int) -> list[Text]:
    """Return a labelled text as lines, those after the first indented to where the text begins."""
    first, *others = _broken(text, max(width - len(label), LEAST_LAST_COLUMN))
    head = Text().append(label, style="dim").append(first)
    return [head, *(Text(" " * len(label) + line) for line in others)]
