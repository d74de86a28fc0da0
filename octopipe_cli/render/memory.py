"""What each rank holds over time, drawn below the Gantt chart and to its time axis."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.text import Text

from octopipe_cli.render.bars import DIM, axis
from octopipe_cli.render.frame import Frame
from octopipe_cli.render.grid import grid, joined
from octopipe_cli.simulate import Timeline
from octopipe_cli.words import gibibyte_text, time_text, with_memory

#: Lines a strip has, by the number of strips; those of more ranks have no line of their own for the limit.
STRIP_LINES: Final = ((2, 4), (4, 3), (8, 2), (16, 1))
#: A limit this many times the highest peak is named only: drawn to it, the curves would be flat.
FAR: Final = 3
HELD: Final = "#0072b2"
STATE: Final = "#56b4e9"
OVER: Final = "bold red"


class Peak(NamedTuple):
    """The most a rank holds: when it is first reached, and what the rank does then."""

    size_bytes: int
    at_ns: int
    doing: str


def peak_of(timeline: Timeline, rank: int) -> Peak:
    """Return the peak of a rank, in words such as ``as 1F7 starts``."""
    at_ns, size = max(timeline.memory_curve(rank), key=lambda point: (point[1], -point[0]))
    orders, starts, ends = timeline.orders[rank], timeline.start_ns[rank], timeline.end_ns[rank]
    running = bisect_right(starts, at_ns) - 1
    if not orders:
        return Peak(size, at_ns, "all the time")
    if running >= 0 and at_ns < ends[running]:
        action = orders[running]
        doing = f"as {action} starts" if starts[running] == at_ns else f"during {action}"
    else:
        coming = bisect_left(starts, at_ns)
        action = orders[coming] if coming < len(orders) else orders[-1]
        doing = f"before {action}" if coming < len(orders) else f"after {action}"
    return Peak(size, at_ns, f"{doing}, micro-batch {action.microbatch}")


def memory_chart(frame: Frame) -> Text:
    """Return the memory of the ranks of a frame: a strip each, the peaks named below; no strips where none is held.

    A cell shows the most that is held at any instant of its time. The top of a strip is the rank's limit or, where it
    has none within reach, the highest peak.
    """
    timeline = frame.timeline
    if not with_memory(timeline):
        return Text("memory: the plan's profile gives no sizes\n")
    lines = [_heading(frame)]
    for rank in frame.ranks:
        lines += _strip(frame, rank)
    lines += axis(frame.window, frame.cells, frame.label_width, frame.glyphs)
    return joined([*lines, _legend(frame), Text(), *_peaks(frame)])


def _heading(frame: Frame) -> Text:
    head = "GiB: peak/limit"
    return Text(f"{'rank'.rjust(frame.label_width)} {frame.bracket()}  {head}", style=DIM)


def _strip(frame: Frame, rank: int) -> Iterator[Text]:
    """Yield the lines of a rank: its limit with the peak marked on it, then the curve."""
    timeline, glyphs = frame.timeline, frame.glyphs
    number = next((lines for most, lines in STRIP_LINES if len(frame.ranks) <= most), 0)
    peak, limit = timeline.peak_memory_bytes[rank], timeline.pipeline.limit_bytes[rank]
    highest = max(timeline.peak_memory_bytes)
    top = limit if limit is not None and limit <= FAR * highest else highest
    held = _most_held(frame, rank)
    label = str(rank).rjust(frame.label_width - 1) + " "
    most = glyphs.infinity if limit is None else gibibyte_text(limit)
    figure = Text(f" {gibibyte_text(peak)}/{most}")
    if limit is not None and peak > limit:
        figure = figure.append("!").copy()
        figure.stylize(OVER)
    if number:
        yield _top_line(frame, rank, top, held)
    levels = len(glyphs.levels)
    full = max(number, 1) * levels
    state = timeline.pipeline.state_bytes(rank) * full // max(top, 1)
    heights = [-(-size * full // max(top, 1)) for size in held]
    for line in reversed(range(max(number, 1))):
        text = Text(label).append(glyphs.side, style=DIM)
        for height, size in zip(heights, held, strict=True):
            over = limit is not None and size > limit
            text.append(*_mark(frame, height - line * levels, state - line * levels, over))
        yield text.append(glyphs.side, style=DIM).append_text(figure)
        label, figure = " " * len(label), Text()


def _mark(frame: Frame, height: int, state: int, over: bool) -> tuple[str, str]:
    """Return the character and style of a cell; height and state's height in levels above its lower edge."""
    levels = frame.glyphs.levels
    if height <= 0:
        return " ", ""
    if state >= len(levels):
        return frame.glyphs.texture["I"] if not frame.glyphs.ascii_only else "s", OVER if over else STATE
    return levels[min(height, len(levels)) - 1], OVER if over else HELD


def _top_line(frame: Frame, rank: int, top: int, held: list[int]) -> Text:
    """Return the line above a strip: the limit, ``!`` where it is exceeded, the peak marked; or what the top is."""
    timeline, glyphs = frame.timeline, frame.glyphs
    limit = timeline.pipeline.limit_bytes[rank]
    if limit == top:
        said, rule = f" limit {gibibyte_text(top)} GiB ", glyphs.line
    else:
        said, rule = f" top of the strip: {gibibyte_text(top)} GiB " if rank == frame.ranks[0] else "", " "
    cells = ["!" if limit is not None and size > limit else rule for size in held]
    peak = peak_of(timeline, rank).at_ns
    at = frame.cell_at(peak)
    begin = 2 if 2 * at >= frame.cells else frame.cells - 2 - len(said)
    cells[begin : begin + len(said)] = said
    if frame.window.from_ns <= peak < frame.window.to_ns:
        cells[at] = glyphs.peak
    return Text(" " * frame.label_width + " ").append("".join(cells), style=DIM)


def _most_held(frame: Frame, rank: int) -> list[int]:
    """Return the most a rank holds in the time of each cell; what is left out counts in the cells of its pattern."""
    held, length = [0] * frame.cells, frame.window.length_ns
    curve = frame.timeline.memory_curve(rank)
    ends = [time for time, _ in curve[1:]] + [max(frame.timeline.step_time_ns, 1)]
    for (start, size), end in zip(curve, ends, strict=True):
        for begin, stop in _shown(frame, start, end):
            for cell in range(begin * frame.cells // length, -(-stop * frame.cells // length)):
                held[cell] = max(held[cell], size)
    return held


def _shown(frame: Frame, start_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    """Yield where a stretch of time is shown: what of it is left out lies on the pattern it repeats."""
    window, steady = frame.window, frame.steady
    begin, stop = window.place_ns(start_ns), window.place_ns(end_ns)
    if stop > begin:
        yield begin, stop
    left_out_from, left_out_to = window.left_out_from_ns, window.left_out_to_ns
    if steady is None or end_ns <= left_out_from or start_ns >= left_out_to:
        return
    inside = max(start_ns, left_out_from) - steady.from_ns
    length = min(end_ns, left_out_to) - max(start_ns, left_out_from)
    begin = steady.from_ns + inside % steady.period_ns
    pattern_end = steady.from_ns + steady.period_ns
    yield begin, min(begin + length, pattern_end)
    if begin + length > pattern_end:
        yield steady.from_ns, min(steady.from_ns + begin + length - pattern_end, pattern_end)


def _legend(frame: Frame) -> Text:
    glyphs = frame.glyphs
    state = "s" if glyphs.ascii_only else glyphs.texture["I"]
    line = Text().append(state * 2, style=STATE).append(" state of the layers   ")
    line.append(glyphs.levels[-1] * 2, style=HELD).append(" activations and all else   ")
    return line.append(f"{glyphs.peak} peak", style=DIM)


def _peaks(frame: Frame) -> list[Text]:
    rows = []
    for rank in frame.ranks:
        peak, limit = peak_of(frame.timeline, rank), frame.timeline.pipeline.limit_bytes[rank]
        most = frame.glyphs.infinity if limit is None else gibibyte_text(limit)
        size = gibibyte_text(peak.size_bytes, 2)
        rows.append([str(rank), size, most, frame.glyphs.plain(time_text(peak.at_ns)), peak.doing])
    return grid(["rank", "peak GiB", "limit", "first at", "there"], rows, "rrrrw", frame.width)
