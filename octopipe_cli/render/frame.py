"""What the charts of one plan have in common: the rows, the columns beside them, the time that is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.text import Text

from octopipe_cli.errors import InputError
from octopipe_cli.render.cells import Window
from octopipe_cli.render.console import LEAST_WIDTH
from octopipe_cli.render.glyphs import Glyphs
from octopipe_cli.render.grid import wrapped
from octopipe_cli.simulate import Timeline
from octopipe_cli.steady import Steady, steady_state
from octopipe_cli.words import gibibyte_text, percent_text, time_text, with_memory

#: A step is long where an action of the rank that has most of them has fewer cells than this on average.
LEAST_CELLS_AN_ACTION: Final = 2
#: The steady state takes so many cells at least: where the pattern is short, it is shown more than once.
LEAST_CELLS_OF_PATTERN: Final = 5
#: Less than this part of the step is not worth leaving out.
LEAST_LEFT_OUT: Final = 4


@dataclass(frozen=True)
class Frame:
    """The frame of a chart.

    Attributes
    ----------
    ranks
        The rows shown, in this order.
    label_width, cells
        Columns before the rows, and those of a row between its sides.
    stats, stat_widths
        The figures behind the rows, heads first, and the widths of their columns.
    fold
        The steady state that the window leaves out for the most part; None where it leaves out nothing.
    """

    timeline: Timeline
    glyphs: Glyphs
    width: int
    window: Window
    ranks: tuple[int, ...]
    label_width: int
    cells: int
    stats: tuple[tuple[str, ...], ...]
    stat_widths: tuple[int, ...]
    fold: Fold | None

    @property
    def steady(self) -> Steady | None:
        """The steady state that the window leaves out for the most part; None where it leaves out nothing."""
        return None if self.fold is None else self.fold.steady

    def cell_at(self, time_ns: int) -> int:
        """Return the cell in which an instant is shown, the last one for the end of the time shown."""
        return min(self.window.place_ns(time_ns) * self.cells // self.window.length_ns, self.cells - 1)

    def bracket(self) -> str:
        """Return the cells above the rows: blank, but for the steady state, which is marked."""
        if self.steady is None:
            return " " * self.cells
        begin, end = self.cell_at(self.steady.from_ns), self.cell_at(self.window.left_out_from_ns)
        times = f"{self.steady.repeats}x"
        inside = times if len(times) + 2 <= end - begin else ""
        mark = f"[{inside.center(end - begin - 2, self.glyphs.rule)}]"
        return f"{' ' * begin}{mark}{'' if inside else f' {times}'}".ljust(self.cells)[: self.cells]

    def steady_note(self) -> Iterator[Text]:
        """Yield the lines that say what repeats, and what of it is left out."""
        if self.fold is not None:
            text = f"{self.fold.said(self.timeline)} (`octopipe show --full`: nothing)"
            yield from wrapped("steady state: ", self.glyphs.plain(text), self.width)


class Fold(NamedTuple):
    """A step of whose steady state the pattern is shown so many times, the rest being left out of the window."""

    steady: Steady
    shown: int
    window: Window

    def said(self, timeline: Timeline) -> str:
        """Return in words what repeats, and what of it is left out."""
        window, steady = self.window, self.steady
        each = "a micro-batch" if steady.microbatches == 1 else f"{steady.microbatches} micro-batches"
        often = "once" if self.shown == 1 else f"{self.shown} times"
        begin, end = time_text(window.left_out_from_ns), time_text(window.left_out_to_ns)
        text = f"{_entering(timeline, steady)}{each} every {time_text(steady.period_ns)}, the same pattern "
        return f"{text}{steady.repeats} times, shown {often}; left out: {begin} to {end}"


def make_frame(
    timeline: Timeline,
    width: int,
    glyphs: Glyphs,
    from_ns: int = 0,
    to_ns: int | None = None,
    ranks: Sequence[int] | None = None,
    full: bool = False,
) -> Frame:
    """Return the frame of charts at most `width` columns wide (at least 60).

    Where the whole step is shown and too long for the width, the repetitions of its steady state are left out, unless
    all is wanted (`full`).

    Raises
    ------
    InputError
        Where the time shown is empty or a rank does not exist.
    """
    width = max(width, LEAST_WIDTH)
    window = _window(timeline, from_ns, to_ns)
    number = timeline.pipeline.num_ranks
    chosen = tuple(range(number)) if ranks is None else tuple(ranks)
    for rank in chosen:
        if not 0 <= rank < number:
            raise InputError(f"no rank {rank}", expected=f"0 to {number - 1}")
    digits = 1 if width >= 100 else 0
    stats = (_stat_heads(timeline), *(_stats(timeline, rank, digits, glyphs) for rank in chosen))
    widths = tuple(max(map(len, column)) for column in zip(*stats, strict=True))
    label_width = max(len("rank"), len(str(number - 1)) + 1)
    # label, side, cells, side, then each figure behind a blank
    cells = width - label_width - 2 - sum(wide + 1 for wide in widths)
    whole = not full and window.length_ns == timeline.step_time_ns
    fold = fold_of(timeline, chosen, cells) if whole else None
    window = window if fold is None else fold.window
    return Frame(timeline, glyphs, width, window, chosen, label_width, cells, stats, widths, fold)


def fold_of(timeline: Timeline, ranks: Sequence[int], cells: int) -> Fold | None:
    """Return how a step is abbreviated on so many cells.

    None where it is not long, that is where the actions of these ranks can be told apart, where nothing repeats, or
    where little would be left out.
    """
    if max((len(timeline.orders[rank]) for rank in ranks), default=0) * LEAST_CELLS_AN_ACTION <= cells:
        return None
    steady, step = steady_state(timeline), timeline.step_time_ns
    if steady is None:
        return None
    for shown in range(1, steady.repeats):
        left_out = (steady.repeats - shown) * steady.period_ns
        if LEAST_LEFT_OUT * left_out < step:
            break
        if shown * steady.period_ns * cells >= LEAST_CELLS_OF_PATTERN * (step - left_out):
            return Fold(steady, shown, Window(0, step, steady.from_ns + shown * steady.period_ns, steady.to_ns))
    return None


def _entering(timeline: Timeline, steady: Steady) -> str:
    """Return which micro-batches enter in the steady state, where they are neighbours, as the begin of a sentence."""
    rank = timeline.pipeline.rank_of[0]
    entering = sorted(
        microbatch
        for (stage, kind, microbatch), start in zip(timeline.orders[rank], timeline.start_ns[rank], strict=True)
        if (stage, kind) == (0, "F") and steady.from_ns <= start < steady.to_ns
    )
    first, last = entering[0], entering[-1]
    return f"micro-batches {first} to {last} enter, " if last - first + 1 == len(entering) else ""


def _window(timeline: Timeline, from_ns: int, to_ns: int | None) -> Window:
    step = max(timeline.step_time_ns, 1)
    end = step if to_ns is None else min(to_ns, step)
    if not 0 <= from_ns < end:
        raise InputError(
            "no time to show",
            found=f"from {time_text(from_ns)} to {time_text(end)}",
            expected=f"a part of the step, 0 to {time_text(step)}",
        )
    return Window(from_ns, end)


def _stat_heads(timeline: Timeline) -> tuple[str, ...]:
    return ("busy%", "bubble%", "GiB")[: 3 if with_memory(timeline) else 2]


def _stats(timeline: Timeline, rank: int, digits: int, glyphs: Glyphs) -> tuple[str, ...]:
    step = timeline.step_time_ns
    busy = percent_text(timeline.busy_ns[rank], step)
    split = "/".join(percent_text(part, step, digits) for part in timeline.bubbles(rank))
    if not with_memory(timeline):
        return busy, split
    limit, peak = timeline.pipeline.limit_bytes[rank], timeline.peak_memory_bytes[rank]
    if limit is None:
        return busy, split, f"{gibibyte_text(peak)}/{glyphs.infinity}"
    return busy, split, f"{gibibyte_text(peak)}/{gibibyte_text(limit)}{'!' if peak > limit else ''}"
