"""The time axis: round ticks at whole nanoseconds."""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from octopipe_cli.render.cells import Window
from octopipe_cli.words import Unit, decimal_text, unit_of


class Tick(NamedTuple):
    """A tick: its cell and what is written there."""

    cell: int
    label: str


def ticks(window: Window, cells: int) -> tuple[Unit, list[Tick]]:
    """Return the unit and the ticks: 1, 2 or 5 times a power of ten apart, as dense as their labels allow."""
    unit, times = round_times(window, cells)
    marks: list[Tick] = []
    for time, label in times:
        cell = window.place_ns(time) * cells // window.length_ns
        if window.shows(time) and (not marks or cell > marks[-1].cell + len(marks[-1].label)):
            marks.append(Tick(cell, label))
    return unit, marks


def round_times(window: Window, cells: int) -> tuple[Unit, list[tuple[int, str]]]:
    """Return the unit and (time in ns, label) of each tick on an axis that is so many characters long."""
    unit = unit_of(window.to_ns)
    for exponent in count():
        digits = max(unit.power - exponent, 0)
        width = len(decimal_text(window.to_ns, 10**unit.power, digits))
        for factor in (1, 2, 5):
            step = factor * 10**exponent
            if step * cells >= (width + 4) * window.length_ns:
                first = -(-window.from_ns // step) * step
                # In a narrow chart not one round time may lie inside the window: then its start is named.
                times = range(first, window.to_ns, step) or [window.from_ns]
                digits = digits if times[0] == first else unit.power
                return unit, [(time, decimal_text(time, 10**unit.power, digits)) for time in times]
    raise AssertionError("some step is long enough")
