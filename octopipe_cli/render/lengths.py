"""The table of what fixed orders cost over many sets of lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined, wrapped
from octopipe_cli.words import time_column, visible

FIELDS = ("step_time_ns", "mean_ns", "p95_ns", "worst_ns")


def lengths_table(listed: Sequence[Mapping[str, Any]], steps: int, glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of schedules and plans over the lengths of so many steps."""
    unit, texts = time_column(row[field] for row in listed for field in FIELDS)
    heads = ["schedule", "partition", "stages", *(f"{name} {glyphs.plain(unit)}" for name in _NAMES)]
    too_large = any(row["steps_too_large"] for row in listed)
    if too_large:
        heads.append("do not fit")
    lines = []
    for number, row in enumerate(listed):
        times = texts[len(FIELDS) * number : len(FIELDS) * (number + 1)]
        name = visible(row.get("plan", row["schedule"]))
        lines.append([name, row["partition"], str(row["stages_per_rank"]), *times])
        if too_large:
            lines[-1].append(str(row["steps_too_large"]) if row["steps_too_large"] else "")
    said = (
        f"Lengths of {steps} step{'' if steps == 1 else 's'}, the orders as they stand. Equal: all micro-batches of "
        "the profile's length. Stages: a rank's."
    )
    return joined([*grid(heads, lines, "llr" + "r" * (len(heads) - 3), width), Text(), *wrapped("", said, width)])


_NAMES = ("equal", "mean", "95th percentile", "worst")
