"""The table of measured actions beside planned ones."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from octopipe_cli.render.grid import grid, joined
from octopipe_cli.words import decimal_text


def action_table(rows: Iterable[tuple[str, int, int, int, int]], width: int = 100) -> Text:
    """Return the table of (kind, actions, planned, mean difference, largest difference), times in ns."""
    cells = [
        [kind, str(count), _ms(planned), _ms(mean, sign=True), _ms(largest, sign=True)]
        for kind, count, planned, mean, largest in rows
    ]
    heads = ["kind", "actions", "planned ms, mean", "measured more, mean", "measured more, largest"]
    return joined(grid(heads, cells, "lrrrr", width))


def _ms(time_ns: int, sign: bool = False) -> str:
    plus = "-" if time_ns < 0 else "+" if sign else ""
    return plus + decimal_text(abs(time_ns), 10**6, 3)
