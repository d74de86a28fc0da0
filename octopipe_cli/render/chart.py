"""A chart of curves: what is drawn, its axes with round ticks; for the terminal (`plot`) and for SVG."""

from __future__ import annotations

import math
from typing import NamedTuple


class Curve(NamedTuple):
    """A curve: its name, and its points (x, y), ascending in x."""

    name: str
    points: tuple[tuple[float, float], ...]


class Chart(NamedTuple):
    """Curves over one axis.

    Attributes
    ----------
    x_axis, y_axis
        What the axes show, with units.
    main
        The curve that the chart is about.
    others
        The ones to compare it with.
    marked
        x of the main curve's points that are marked.
    x_values
        All x that were asked for, ascending, with or without a point.
    most
        Points above it are not drawn: a curve far off would flatten the others.
    """

    x_axis: str
    y_axis: str
    main: Curve
    others: tuple[Curve, ...]
    marked: frozenset[float]
    x_values: tuple[float, ...]
    most: float = math.inf

    def drawn(self) -> list[Curve]:
        """Return the curves with the points that are drawn; the main one last, so that it lies on top."""
        return [Curve(curve.name, tuple(p for p in curve.points if p[1] <= self.most)) for curve in self.all]

    @property
    def all(self) -> tuple[Curve, ...]:
        """All curves, the main one last."""
        return (*self.others, self.main)


class Axis(NamedTuple):
    """A range of values and where its ticks stand, with what is written there."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies, 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def y_axis(chart: Chart, most_ticks: int) -> Axis:
    """Return the axis of the values: it begins and ends with a tick, at most so many (2 or more)."""
    values = [y for curve in chart.drawn() for _, y in curve.points]
    low, high = min(values), max(values)
    if high - low < 0.02 * abs(high):  # nearly level curves: not to be blown up to mountains
        middle, half = (high + low) / 2, 0.01 * abs(high) or 1.0
        low, high = middle - half, middle + half
    exponent = math.floor(math.log10((high - low) / most_ticks)) - 1
    while True:
        for factor in (1, 2, 5):
            step = factor * 10.0**exponent
            first, last = math.floor(low / step), math.ceil(high / step)
            if last - first + 1 <= most_ticks:
                ticks = tuple((number * step, _label(number * step, -exponent)) for number in range(first, last + 1))
                return Axis(first * step, last * step, ticks)
        exponent += 1


def x_axis(chart: Chart, most_ticks: int) -> Axis:
    """Return the axis of the swept values, at most so many of them named, first and last always."""
    values = chart.x_values
    low, high = values[0], values[-1]
    if low == high:
        low, high = low - 1, high + 1
    every = max(1, math.ceil((len(values) - 1) / max(1, most_ticks - 1)))
    named = [value for at, value in enumerate(values) if at % every == 0 and len(values) - 1 - at >= every]
    return Axis(low, high, tuple((value, f"{value:g}") for value in [*named, values[-1]]))


def _label(value: float, digits: int) -> str:
    return f"{value:.{max(0, digits)}f}"
