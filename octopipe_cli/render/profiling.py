"""The tables of `profile measure`, `profile calibrate` and `profile import trace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from octopipe_cli.profile import Profile
from octopipe_cli.render.glyphs import BLOCKS, Glyphs
from octopipe_cli.render.grid import grid, joined
from octopipe_cli.words import decimal_text, size_text

SHORT: Final = {"forward_ms": "F", "backward_input_ms": "I", "backward_weight_ms": "W", "backward_ms": "B"}


def measured_table(profile: Profile, spreads: Mapping[str, float], glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of a measured profile: for each kind its times, their widest spread, what is kept.

    `spreads` are interquartile ranges relative to medians.
    """
    heads = ["kind", "layers", "F ms", "I ms", "W ms", "B ms", "spread %", "kept for I", "for W", "workspace"]
    rows = []
    for name, kind in profile.kinds.items():
        (times,) = kind.times.values()
        parts = [times.forward_ms, times.backward_input_ms, times.backward_weight_ms]
        whole = times.backward_input_ms + times.backward_weight_ms if times.backward_ms is None else times.backward_ms
        cells = [glyphs.name(name), str(profile.layer_kinds.count(name))]
        cells += [_milliseconds(value) for value in (*parts, whole)]
        cells.append(f"{100 * spreads[name]:.1f}")
        sizes = (kind.activation_bytes, kind.weight_activation_bytes, kind.workspace_bytes)
        rows.append([*cells, *(size_text(size) for size in sizes)])
    return joined(grid(heads, rows, "l" + "r" * (len(heads) - 1), width))


def fit_table(rows: Sequence[Mapping[str, Any]], first: str, glyphs: Glyphs = BLOCKS, width: int = 100) -> Text:
    """Return the table of a fit: what each row is of (`first` heads it), which time, measured, fitted, how far off.

    Each row has of, time, measured_ms, fitted_ms and, where there was something before, before_ms.
    """
    before = any("before_ms" in row for row in rows)
    heads = [first, "time", *(["before ms"] if before else []), "measured ms", "fitted ms", "off by %"]
    table = []
    for row in rows:
        measured, fitted = row["measured_ms"], row["fitted_ms"]
        cells = [glyphs.name(str(row["of"])), SHORT.get(row["time"], row["time"])]
        cells += [_milliseconds(row["before_ms"])] if before else []
        off = f"{100 * (fitted / measured - 1):+.1f}" if measured > 0 else ""
        table.append([*cells, _milliseconds(measured), _milliseconds(fitted), off])
    return joined(grid(heads, table, "ll" + "r" * (len(heads) - 2), width))


def _milliseconds(value: float) -> str:
    return decimal_text(round(value * 1e6), 10**6, 3)
