"""``csv``: the timeline as a table, a row an action."""

from __future__ import annotations

from typing import Final

from octopipe_cli.export import Options
from octopipe_cli.export.rows import rows_of
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay

#: Layers are two columns of numbers: a spreadsheet reads "3-5" as a date.
COLUMNS: Final = ("rank", "stage", "kind", "microbatch", "start_ns", "end_ns", "first_layer", "num_layers")


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the timeline: times in whole ns from the start of the step; only numbers and F, I, W, B stand in it."""
    lines = [",".join(COLUMNS)]
    for row in rows_of(plan.value, replay(plan.value, plan.file)):
        stage, kind, microbatch = row.action
        layers = row.end_layer - row.first_layer
        cells = (row.rank, stage, kind, microbatch, row.start_ns, row.end_ns, row.first_layer, layers)
        lines.append(",".join(map(str, cells)))
    return "\n".join(lines) + "\n"
