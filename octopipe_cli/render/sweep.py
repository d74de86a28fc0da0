"""The table of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined
from octopipe_cli.words import gibibyte_text, percent_text, time_column


def sweep_table(document: Mapping[str, Any], glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of a sweep's document: a row a value, the plan's figures and the best classic schedule's.

    A row without a plan says why. Pareto points, which no smaller value equals in throughput, carry a star.
    """
    entries = document["points"]
    planned = [entry for entry in entries if entry["status"] == "planned"]
    step_unit, steps = time_column(entry["step_time_ns"] for entry in planned)
    with_tokens = any(entry["tokens_per_s"] is not None for entry in planned)
    heads = [_head(document), "", f"step {glyphs.plain(step_unit)}", "gap %", "micro-batches/s"]
    heads += ["tokens/s"] if with_tokens else []
    heads += ["peak GiB", "stages", "best classic", "speed-up"]
    rows, missing, number = [], [], 0
    for entry in entries:
        value = f"{entry['value']:g}"
        if entry["status"] != "planned":
            rows.append([value, "", entry["status"], *[""] * (len(heads) - 3)])
            missing.append(f"{value}: {glyphs.name(entry['message'])}")
            continue
        rows.append([value, "*" if entry["pareto"] else "", steps[number], *_figures(entry, with_tokens)])
        number += 1
    lines = grid(heads, rows, "rl" + "r" * (len(heads) - 4) + "lr", width)
    for line, entry in zip(lines[1:], entries, strict=True):
        if entry.get("pareto"):
            line.stylize("bold")
    return joined([*lines, *(Text(line, style="dim") for line in missing)])


def _head(document: Mapping[str, Any]) -> str:
    unit = document["unit"]
    return f"{document['quantity']} {unit}" if unit else str(document["quantity"])


def _figures(entry: Mapping[str, Any], with_tokens: bool) -> list[str]:
    """Return the cells of a row after its step time."""
    step, bound = entry["step_time_ns"], entry["bound_ns"]
    cells = [percent_text(step - bound, bound, 2), f"{entry['microbatches_per_s']:.2f}"]
    if with_tokens:
        cells.append(f"{entry['tokens_per_s']:.0f}")
    cells += [gibibyte_text(entry["peak_memory_bytes"]), str(entry["stages"])]
    classic = entry["classic"]
    if not classic:
        return [*cells, "none fits", ""]
    best = min(classic, key=lambda name: classic[name]["step_time_ns"])
    return [*cells, best, f"{classic[best]['step_time_ns'] / max(step, 1):.3f}"]
