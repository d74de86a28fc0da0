"""The table of a plan under noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined, wrapped
from octopipe_cli.words import time_column


def noise_table(document: Mapping[str, Any], glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of how step times vary where a profile's times are off."""
    rows = document["rows"]
    fields = ("step_time_ns", "median_ns", "p95_ns", "worst_ns")
    unit, texts = time_column(row[field] for row in rows for field in fields)
    heads = ["schedule", *(f"{name} {glyphs.plain(unit)}" for name in ("predicted", "median", "p95", "worst"))]
    heads.append("plan wins %")
    lines = []
    for number, row in enumerate(rows):
        times = texts[len(fields) * number : len(fields) * (number + 1)]
        wins = "" if row["plan_wins"] is None else f"{100 * row['plan_wins']:.1f}"
        lines.append([row["schedule"], *times, wins])
    table = grid(heads, lines, "lrrrrr", width, ["bold", *[""] * (len(lines) - 1)])
    said = (
        f"{document['draws']} draws, seed {document['seed']}: the times of each kind's F, I and W off by a log-normal "
        f"factor with a deviation of {document['noise_percent']:g} %, the orders as they stand. The plan wins where it "
        "is at least as fast; its own row counts the draws in which it is so against all others."
    )
    return joined([*table, Text(), *wrapped("", said, width)])
