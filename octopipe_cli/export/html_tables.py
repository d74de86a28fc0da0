"""The tables of the page: its figures for those who read rather than look."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from octopipe_cli.plan import Plan
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import gibibyte_text, kinds_text, percent_text, stage_kinds, time_column, visible


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table; the last column holds text, the others numbers."""
    wide = len(heads) - 1
    parts = ["<table><thead><tr>"]
    parts += [f"<th{_wide(at == wide)}>{escape(head)}</th>" for at, head in enumerate(heads)]
    parts.append("</tr></thead><tbody>")
    for row in rows:
        cells = [f"<td{_wide(at == wide)}>{escape(cell)}</td>" for at, cell in enumerate(row)]
        parts.append(f"\n<tr>{''.join(cells)}</tr>")
    return "".join(parts) + "</tbody></table>"


def _wide(wide: bool) -> str:
    return ' class="wide"' if wide else ""


def rank_rows(plan: Plan, timeline: Timeline) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of the table of ranks: what each is, its load, its bubbles, its memory."""
    step, pipeline = timeline.step_time_ns, timeline.pipeline
    unit, busy = time_column(timeline.busy_ns)
    heads = ["rank", f"busy {unit}", "busy %", "bubble before %", "between %", "after %", "step %"]
    modelled = any(timeline.peak_memory_bytes)
    heads += ["state GiB", "peak GiB", "limit GiB", "free GiB"] if modelled else []
    rows = []
    for rank, planned in enumerate(plan.ranks):
        cells = [str(rank), busy[rank], percent_text(timeline.busy_ns[rank], step)]
        cells += [percent_text(part, step) for part in (*timeline.bubbles(rank), planned.step_ns)]
        if modelled:
            peak, limit = timeline.peak_memory_bytes[rank], planned.memory_limit_bytes
            cells += [gibibyte_text(pipeline.state_bytes(rank)), gibibyte_text(peak)]
            cells += ["none", ""] if limit is None else [gibibyte_text(limit), gibibyte_text(limit - peak)]
        stages = ", ".join(map(str, pipeline.stages_of[rank]))
        rows.append([*cells, f"{visible(planned.hardware)}, node {planned.node}; stages {stages}"])
    return [*heads, "what it is"], rows


def stage_rows(plan: Plan, timeline: Timeline) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of the table of stages: where each is, its layers, the times of its actions."""
    columns = [[stage.action_ns.get(kind) for stage in plan.stages] for kind in ("F", "I", "W", "B")]
    unit = time_column([time or 0 for column in columns for time in column])[0]
    heads = ["stage", "rank", "first layer", "layers", *(f"{kind} {unit}" for kind in ("F", "I", "W", "B")), "kinds"]
    rows = []
    written = time_column([time or 0 for column in columns for time in column])[1]
    number = len(plan.stages)
    for at, stage in enumerate(plan.stages):
        first, stop = stage.layers
        times = [written[c * number + at] if column[at] is not None else "" for c, column in enumerate(columns)]
        kinds = visible(kinds_text(stage_kinds(stage.kinds))) + (" (recomputed)" if stage.recompute else "")
        rows.append([str(at), str(stage.rank), str(first), str(stop - first), *times, kinds])
    return heads, rows
