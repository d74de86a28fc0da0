"""Plain tables and joined lines: what rich would lay out differently from version to version is laid out here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

GAP = "  "


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


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int, width: int) -> list[Text]:
    """Return a table as lines: a dim head, one row a line.

    Parameters
    ----------
    heads, rows
        Texts of the cells.
    left
        How many of the last columns are aligned at their left; all others at their right.
    width
        Columns there are: the last table column is wrapped to what is left for it, at least 20.
    """
    columns = list(zip(heads, *rows, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    before = sum(wide + len(GAP) for wide in widths[:-1])
    widths[-1] = min(widths[-1], max(width - before, 20))
    lines = []
    for number, row in enumerate([heads, *rows]):
        wrapped = textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False) or [""] if left else [row[-1]]
        cells = [*row[:-1], wrapped[0]]
        first = len(cells) - left
        text = GAP.join(
            _padded(cell, wide, at >= first) for at, (cell, wide) in enumerate(zip(cells, widths, strict=True))
        )
        style = "dim" if number == 0 else ""
        lines.append(Text(text, style=style))
        lines += [Text(" " * before + more, style=style) for more in wrapped[1:]]
    return lines


def _padded(cell: str, width: int, left: bool) -> str:
    blank = " " * (width - cell_len(cell))
    return cell + blank if left else blank + cell


def wrapped(label: str, text: str, width: int) -> list[Text]:
    """Return a labelled text as lines, those after the first indented to where the text begins."""
    first, *others = textwrap.wrap(text, max(width - len(label), 20), break_on_hyphens=False) or [""]
    head = Text(label, style="")
    head.stylize("dim")
    return [head.append(first), *(Text(" " * len(label) + line) for line in others)]
