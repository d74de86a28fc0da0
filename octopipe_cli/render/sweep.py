"""The table of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.text import Text

from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined, without, wrapped
from octopipe_cli.words import gibibyte_text, percent_text, time_column

#: Heads of quantities whose names are long.
SHORT: Final = {"max-stages-per-rank": "stages/rank"}
#: Columns that are left out where the terminal is too narrow for all, in this order.
LEFT_OUT: Final = ("stages", "micro-b./s", "peak GiB", "gap %")


def sweep_table(document: Mapping[str, Any], glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of a sweep's document: a row a value, the plan's figures and the best classic schedule's.

    A row without a plan says why. Pareto points, which no smaller value equals in throughput, carry a star.
    """
    entries = document["points"]
    columns = without(_columns(document, glyphs), LEFT_OUT, width)
    align = "".join("l" if head in ("", "best classic") else "r" for head in columns)
    styles = ["bold" if entry.get("pareto") else "" for entry in entries]
    lines = grid(list(columns), list(zip(*columns.values(), strict=True)), align, width, styles)
    missing = [entry for entry in entries if entry["status"] != "planned"]
    said = [line for e in missing for line in wrapped(f"{e['value']:g}: ", glyphs.name(e["message"]), width)]
    return joined([*lines, *said])


def _columns(document: Mapping[str, Any], glyphs: Glyphs) -> dict[str, list[str]]:
    """Return the columns, by their heads; empty cells where there is no plan, but for the status."""
    entries = document["points"]
    planned = [entry for entry in entries if entry["status"] == "planned"]
    unit, texts = time_column(entry["step_time_ns"] for entry in planned)
    steps = iter(texts)

    def cells(of: Callable[[Any], str]) -> list[str]:
        return [of(entry) if entry["status"] == "planned" else "" for entry in entries]

    name = SHORT.get(document["quantity"], document["quantity"])
    columns = {
        f"{name} {document['unit']}".strip(): [f"{entry['value']:g}" for entry in entries],
        "": cells(lambda entry: "*" if entry["pareto"] else ""),
        f"step {glyphs.plain(unit)}": [next(steps) if e["status"] == "planned" else e["status"] for e in entries],
        "gap %": cells(lambda e: percent_text(e["step_time_ns"] - e["bound_ns"], e["bound_ns"], 2)),
        "micro-b./s": cells(lambda entry: f"{entry['microbatches_per_s']:.2f}"),
    }
    if any(entry["tokens_per_s"] is not None for entry in planned):
        columns["tokens/s"] = cells(lambda entry: f"{entry['tokens_per_s']:.0f}")
    columns["peak GiB"] = cells(lambda entry: gibibyte_text(entry["peak_memory_bytes"]))
    columns["stages"] = cells(lambda entry: str(entry["stages"]))
    columns["best classic"] = cells(lambda entry: _best(entry) or "none fits")
    columns["speed-up"] = cells(_speedup)
    return columns


def _best(entry: Mapping[str, Any]) -> str | None:
    classic = entry["classic"]
    return min(classic, key=lambda name: classic[name]["step_time_ns"]) if classic else None


def _speedup(entry: Mapping[str, Any]) -> str:
    best = _best(entry)
    return "" if best is None else f"{entry['classic'][best]['step_time_ns'] / max(entry['step_time_ns'], 1):.3f}"
