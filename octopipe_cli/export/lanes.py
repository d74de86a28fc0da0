"""A rank's actions as shapes to draw: boxes, and columns of shares where actions are too narrow to be seen apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from octopipe_cli.plan import Action
from octopipe_cli.render.cells import Window
from octopipe_cli.simulate import Timeline

#: Coordinates are whole tenths of a pixel.
TENTHS: Final = 10
#: Narrower actions than this, in tenths of a pixel, are not drawn one by one ...
LEAST_WIDTH: Final = 16
#: ... but as columns of this width that are filled, from the bottom, with the share of each kind of action.
COLUMN_WIDTH: Final = 20
#: Their heights are told to half a pixel.
HALF: Final = TENTHS // 2


#: An action with its start and end in ns of the time shown.
Span = tuple[Action, int, int]


class Scale(NamedTuple):
    """An axis: the time shown on `width` tenths of a pixel."""

    window: Window
    width: int

    @property
    def length_ns(self) -> int:
        """How much time is shown."""
        return self.window.length_ns

    def at(self, time_ns: int) -> int:
        """Return where an instant is, in tenths of a pixel."""
        return self.window.place_ns(time_ns) * self.width // self.length_ns


class Box(NamedTuple):
    """An action: from left to right, in tenths of a pixel, with the tone (0 or 1) of its stage."""

    left: int
    right: int
    action: Action
    tone: int


class Slab(NamedTuple):
    """A part of a row filled by one kind: from left to right, from bottom to top, in tenths of a pixel."""

    left: int
    right: int
    bottom: int
    top: int
    kind: str


def boxes_of(timeline: Timeline, rank: int, scale: Scale) -> list[Box]:
    """Return the actions of a rank that are wide enough to be drawn one by one."""
    tone = {stage: at % 2 for at, stage in enumerate(timeline.pipeline.stages_of[rank])}
    boxes = []
    for action, start, end in _spans(timeline, rank, scale):
        if not _narrow(start, end, scale):
            boxes.append(Box(_place(start, scale), _place(end, scale), action, tone[action.stage]))
    return boxes


def slabs_of(timeline: Timeline, rank: int, scale: Scale, height: int) -> list[Slab]:
    """Return the columns that stand for a rank's narrow actions, alike neighbours joined; `height` is the row's."""
    slabs: list[Slab] = []
    levels = height // HALF
    for run in _narrow_runs(timeline, rank, scale):
        last: dict[str, int] = {}  # the slab of each kind that may go on in the next column
        for left, right, length, share in _columns(run, scale):
            filled = 0
            for kind in "FIWB":
                bottom = filled * levels // length * HALF
                filled += share.get(kind, 0)
                top = filled * levels // length * HALF
                if top <= bottom:
                    continue
                before = slabs[last[kind]] if kind in last else None
                if before is not None and (before.right, before.bottom, before.top) == (left, bottom, top):
                    slabs[last[kind]] = before._replace(right=right)
                else:
                    last[kind] = len(slabs)
                    slabs.append(Slab(left, right, bottom, top, kind))
    return slabs


def _narrow_runs(timeline: Timeline, rank: int, scale: Scale) -> Iterator[list[Span]]:
    """Yield a rank's narrow actions in runs that no wide action and no visible gap interrupts."""
    run: list[Span] = []
    for span in _spans(timeline, rank, scale):
        _, start, end = span
        if run and (not _narrow(start, end, scale) or not _narrow(run[-1][2], start, scale)):
            yield run
            run = []
        if end > start and _narrow(start, end, scale):
            run.append(span)
    if run:
        yield run


def _columns(run: list[Span], scale: Scale) -> Iterator[tuple[int, int, int, dict[str, int]]]:
    """Yield the columns of a run as (left, right, time in it, time of each kind), times in ns, none left over."""
    begin, length = run[0][1], run[-1][2] - run[0][1]
    number = max(1, min(length, length * scale.width // (scale.length_ns * COLUMN_WIDTH)))
    edges = [begin + length * at // number for at in range(number + 1)]
    shares: list[dict[str, int]] = [{} for _ in range(number)]
    at = 0
    for action, start, end in run:
        while start < end:
            while edges[at + 1] <= start:
                at += 1
            until = min(end, edges[at + 1])
            shares[at][action.kind] = shares[at].get(action.kind, 0) + until - start
            start = until
    for at, share in enumerate(shares):
        yield _place(edges[at], scale), _place(edges[at + 1], scale), edges[at + 1] - edges[at], share


def has_narrow(timeline: Timeline, scale: Scale) -> bool:
    """Return whether any action is too narrow to be drawn by itself."""
    ranks = range(timeline.pipeline.num_ranks)
    return any(_narrow(start, end, scale) for rank in ranks for _, start, end in _spans(timeline, rank, scale))


def outline(curve: list[tuple[int, int]], scale: Scale, end_ns: int) -> list[tuple[int, int]]:
    """Return a memory curve as (left, bytes) steps, one a pixel at most: the most that is held in it, so peaks stay."""
    steps: list[tuple[int, int]] = []
    held = 0
    for time, size in curve:
        if time >= end_ns:
            break
        left = scale.at(time) // TENTHS * TENTHS
        if steps and steps[-1][0] == left:
            steps[-1] = (left, max(steps[-1][1], size))
        else:
            # what was held up to here may be less than the peak within its own pixel
            if steps and steps[-1][1] != held and steps[-1][0] + TENTHS < left:
                steps.append((steps[-1][0] + TENTHS, held))
            steps.append((left, max(held, size) if steps else size))
        held = size
    if steps and steps[-1][1] != held:
        steps.append((steps[-1][0] + TENTHS, held))
    return steps


def _narrow(start_ns: int, end_ns: int, scale: Scale) -> bool:
    return (end_ns - start_ns) * scale.width < LEAST_WIDTH * scale.length_ns


def _place(shown_ns: int, scale: Scale) -> int:
    """Return where a time of `_spans` is, in tenths of a pixel."""
    return shown_ns * scale.width // scale.length_ns


def _spans(timeline: Timeline, rank: int, scale: Scale) -> Iterator[Span]:
    """Yield the actions of a rank as far as they are shown, their times counted in the time shown."""
    place = scale.window.place_ns
    for action, start, end in zip(timeline.orders[rank], timeline.start_ns[rank], timeline.end_ns[rank], strict=True):
        begin, stop = place(start), place(end)
        if stop > begin or start == end:
            yield action, begin, stop
