"""A sweep as a chart of curves: the plans, and each classic schedule beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from octopipe_cli.render.chart import Chart, Curve
from octopipe_cli.sweep.points import Point, throughput
from octopipe_cli.sweep.quantities import Quantity
from octopipe_cli.words import unit_of

#: Step times above so many times the slowest plan's are not drawn.
FAR: Final = 2


def sweep_chart(quantity: Quantity, points: Sequence[Point]) -> Chart:
    """Return the chart of a sweep: step time, or throughput where the amount of work changes with the value."""
    slowest = max((point.step_time_ns or 0 for point in points), default=0)
    unit = unit_of(slowest)
    one = float(10**unit.power)

    def height(point: Point, step_time_ns: int) -> float:
        if quantity.chart == "throughput":
            return throughput(point.num_microbatches, step_time_ns)
        return step_time_ns / one

    names = dict.fromkeys(name for point in points for name in point.classic or {})
    others = []
    for name in names:
        known = [(point, (point.classic or {}).get(name)) for point in points]
        others.append(Curve(name, tuple((float(p.value), height(p, step)) for p, step in known if step is not None)))
    main = tuple((float(p.value), height(p, p.step_time_ns)) for p in points if p.step_time_ns is not None)
    return Chart(
        quantity.axis,
        "throughput, micro-batches/s" if quantity.chart == "throughput" else f"step time, {unit.name}",
        Curve("plan", main),
        tuple(others),
        frozenset(float(point.value) for point in points if point.pareto),
        tuple(float(point.value) for point in points),
        math.inf if quantity.chart == "throughput" else FAR * slowest / one,
    )
