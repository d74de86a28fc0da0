"""A timeline cut into the cells of a row: exact whole-number shares, so the picture never depends on rounding."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from octopipe_cli.render.glyphs import IDLE, STEP_KIND
from octopipe_cli.simulate import Timeline


class Window(NamedTuple):
    """The part of the step that is shown, in ns, never empty; of it a stretch may be left out."""

    from_ns: int
    to_ns: int
    left_out_from_ns: int = 0
    left_out_to_ns: int = 0

    @property
    def length_ns(self) -> int:
        """How much of the step is shown."""
        return self.to_ns - self.from_ns - (self.left_out_to_ns - self.left_out_from_ns)

    def place_ns(self, time_ns: int) -> int:
        """Return how far from the window's beginning an instant is shown; the nearest shown one where it is not."""
        inside = min(max(time_ns, self.from_ns), self.to_ns)
        left_out = min(max(inside, self.left_out_from_ns), self.left_out_to_ns) - self.left_out_from_ns
        return inside - self.from_ns - left_out

    def shows(self, time_ns: int) -> bool:
        """Return whether an instant is shown."""
        return self.from_ns <= time_ns < self.to_ns and not self.left_out_from_ns <= time_ns < self.left_out_to_ns


class Cell(NamedTuple):
    """What a cell shows: the kind that takes most of it and, of that kind, the action with the largest share.

    `idle` is the idle part of the cell in units of 1 / (number of cells) ns; a whole cell has `length_ns` of them.
    """

    kind: str
    stage: int
    microbatch: int
    idle: int


class Piece(NamedTuple):
    """Something a rank does, optimizer step included."""

    kind: str
    stage: int
    microbatch: int
    start_ns: int
    end_ns: int


class Run(NamedTuple):
    """Neighbouring cells from `first` on, `width` of them, that show the same."""

    first: int
    width: int
    cell: Cell


def pieces(timeline: Timeline, rank: int, window: Window) -> Iterator[Piece]:
    """Yield what a rank does inside the window, in time order."""
    starts, ends = timeline.start_ns[rank], timeline.end_ns[rank]
    for at in range(bisect_right(ends, window.from_ns), len(starts)):
        if starts[at] >= window.to_ns:
            return
        stage, kind, microbatch = timeline.orders[rank][at]
        yield Piece(kind, stage, microbatch, starts[at], ends[at])
    last = timeline.last_end_ns(rank)
    yield Piece(STEP_KIND, -1, -1, last, last + timeline.pipeline.step_ns[rank])


def sample(timeline: Timeline, rank: int, window: Window, cells: int) -> list[Cell]:
    """Return the cells of a rank's row.

    A cell that is idle for more than half of its time shows a bubble; otherwise the kind that takes most of it, the
    first of F, I, W, B and optimizer step where several take the same.
    """
    length = window.length_ns
    spent: list[dict[str, int]] = [{} for _ in range(cells)]
    largest: list[dict[str, tuple[int, Piece]]] = [{} for _ in range(cells)]
    for piece in pieces(timeline, rank, window):
        # In units of 1 / cells ns every border of a cell is a whole number: cell c ends at (c + 1) * length.
        low, high = window.place_ns(piece.start_ns) * cells, window.place_ns(piece.end_ns) * cells
        for cell in range(low // length, -(-high // length)):
            part = min(high, (cell + 1) * length) - max(low, cell * length)
            if part <= 0:
                continue
            spent[cell][piece.kind] = spent[cell].get(piece.kind, 0) + part
            if part > largest[cell].get(piece.kind, (0, piece))[0]:
                largest[cell][piece.kind] = (part, piece)
    return [_cell(parts, shares, length) for parts, shares in zip(spent, largest, strict=True)]


def _cell(spent: dict[str, int], largest: dict[str, tuple[int, Piece]], length: int) -> Cell:
    idle = length - sum(spent.values())
    if 2 * idle > length:
        return Cell(IDLE, -1, -1, idle)
    kind = max((k for k in ("F", "I", "W", "B", STEP_KIND) if k in spent), key=spent.__getitem__)
    piece = largest[kind][1]
    return Cell(kind, piece.stage, piece.microbatch, idle)


def action_runs(row: list[Cell]) -> list[Run]:
    """Return the runs of cells that show the same action."""
    return _runs(row, [(cell.kind, cell.stage, cell.microbatch) for cell in row])


def stage_runs(row: list[Cell]) -> list[Run]:
    """Return the runs of cells that show the same stage; idle ones have stage -1."""
    return _runs(row, [cell.stage for cell in row])


def _runs(row: list[Cell], keys: list[object]) -> list[Run]:
    found = []
    at = 0
    for _, same in groupby(keys):
        width = len(list(same))
        found.append(Run(at, width, row[at]))
        at += width
    return found
