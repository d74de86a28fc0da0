"""The lower half of the picture: what each rank holds over time, against its limit."""

from __future__ import annotations

from typing import Final

from octopipe_cli.export.lanes import Scale, outline
from octopipe_cli.export.svg_parts import block, line, rect, shapes, text
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import gibibyte_text

#: Height of a strip and the gap below it, by the number of ranks.
STRIP_SIZES: Final = ((8, 560, 120), (16, 300, 80), (32, 200, 50), (10**6, 120, 30))
#: A limit this many times the highest peak is named, not drawn: the curves would be flat.
FAR: Final = 3


def memory_panel(timeline: Timeline, scale: Scale, columns: tuple[int, int], top: int) -> tuple[list[str], int]:
    """Return the strips, one a rank, all on one scale, and where they end.

    Parameters
    ----------
    timeline, scale
        What is drawn, and its axis.
    columns
        Left and right edge of the strips, in tenths of a pixel.
    top
        Where the panel begins, in tenths of a pixel.
    """
    left, right = columns
    peaks, limits = timeline.peak_memory_bytes, timeline.pipeline.limit_bytes
    highest = max(peaks)
    drawn = [limit for limit in limits if limit is not None and limit <= FAR * highest]
    full = max([highest, *drawn]) * 21 // 20 or 1
    number = timeline.pipeline.num_ranks
    height, gap = next((height, gap) for most, height, gap in STRIP_SIZES if number <= most)
    parts = [text(left, top, "memory of each rank, GiB", "strong"), *_key(left + 2100, top, bool(drawn))]
    parts.append(text(right + 130, top, "peak / limit", "soft small"))
    at = top + 140
    small = " small" if height < 200 else ""
    for rank in range(number):
        base = at + height
        parts.append(rect(left, at, right - left, height, "idle"))
        parts += _curve(timeline, rank, scale, (left, at, height), full)
        limit = limits[rank]
        if limit in drawn:
            assert limit is not None
            y = base - limit * height // full
            parts.append(line(left, y, right, y, "limit"))
        parts.append(text(left - 120, at + height // 2 + 40, f"rank {rank}", f"strong end{small}"))
        most = "no limit" if limit is None else gibibyte_text(limit)
        over = limit is not None and peaks[rank] > limit
        said = f"{gibibyte_text(peaks[rank])} / {most}{' !' if over else ''}"
        parts.append(text(right + 130, at + height // 2 + 40, said, f"{'strong' if over else 'soft'}{small}"))
        at = base + gap
    return parts, at - gap


def _key(x: int, y: int, limited: bool) -> list[str]:
    """Return the small legend of the panel."""
    parts = [rect(x, y - 90, 200, 100, "state"), text(x + 270, y, "state of the layers", "small soft")]
    x += 1500
    parts += [
        rect(x, y - 90, 200, 100, "memory"),
        text(x + 270, y, "activations, boundary tensors, workspace", "small soft"),
    ]
    if limited:
        x += 2600
        parts += [line(x, y - 40, x + 200, y - 40, "limit"), text(x + 270, y, "limit", "small soft")]
    return parts


def _curve(timeline: Timeline, rank: int, scale: Scale, corner: tuple[int, int, int], full: int) -> list[str]:
    """Return a rank's curve as an area, over the part that its layers' state takes."""
    left, top, height = corner
    steps = outline(timeline.memory_curve(rank), scale, max(timeline.step_time_ns, 1))
    path = [f"M0 {height}"]
    path += [f"H{x}V{height - held * height // full}" for x, held in steps]
    path.append(f"H{scale.width}V{height}z")
    state = timeline.pipeline.state_bytes(rank) * height // full
    paths = {"memory": path, "state": [block(0, scale.width, height - state, height)] if state else []}
    return [f'<g transform="translate({left / 10:g} {top / 10:g})">{shapes(paths)}</g>']
