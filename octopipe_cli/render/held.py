"""The table of what each rank holds."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from octopipe_cli.plan import Plan
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined
from octopipe_cli.words import kinds_text, stage_kinds


def held_table(plan: Plan, glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of a plan's ranks: a line a stage, with its layers and their kinds in words.

    The plan's stages follow one another (`octopipe_cli.replay`).
    """
    rows = []
    for rank in range(len(plan.ranks)):
        mine = [(number, stage) for number, stage in enumerate(plan.stages) if stage.rank == rank]
        for at, (number, stage) in enumerate(mine):
            held = glyphs.name(kinds_text(stage_kinds(stage.kinds)) or "nothing")
            rows.append(["" if at else str(rank), str(number), layers_text(*stage.layers), held])
    return table_of(rows, width)


def layers_text(first: int, stop: int) -> str:
    """Return the layers first .. stop - 1 in words."""
    return "none" if first == stop else f"{first}" if stop == first + 1 else f"{first}-{stop - 1}"


def table_of(rows: Sequence[Sequence[str]], width: int) -> Text:
    """Return rows of rank, stage, layers and what they are as a table."""
    return joined(grid(["rank", "stage", "layers", "holds"], rows, "rrlw", width))
