"""Polish: better orders for one partition and placement, window by window of the schedule, by CP-SAT.

A window is a stretch of all actions by their start. Its actions are free, what is before it is fixed, what is after
it keeps its order; windows with most idle time come first, and one is tried again only where it or a neighbour has
changed. Where no window of a size improves the schedule any more, larger ones are tried, up to the whole.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ortools.sat.python import cp_model

from octopipe_cli.bounds import plan_bound_ns, plan_span_bound_ns
from octopipe_cli.plan import Objective, Orders
from octopipe_cli.search.incumbent import Incumbent, ascending
from octopipe_cli.search.order_model import OrderModel
from octopipe_cli.search.solver import new_solver, solve
from octopipe_cli.search.window import Window
from octopipe_cli.simulate import Timeline, simulate

#: Actions of the first windows; later ones are half as large again.
FIRST_SIZE: Final = 48
#: Deterministic time of one window at the most.
WINDOW_TIME: Final = 0.2
#: What looking at a window is charged, besides the solver's time: for itself, and for each action of the schedule.
LOOK_TIME: Final = 0.004
ACTION_TIME: Final = 2e-6
#: How often a window is solved with more memory left alone, where its boundary tensors do not fit.
RETRIES: Final = 2


def polish(
    timeline: Timeline,
    *,
    objective: Objective,
    floor_ns: int,
    deterministic_time: float,
    deadline: float | None,
    stop: Callable[[], bool],
) -> Timeline:
    """Return a timeline at least as good, as the simulator has it; one that does not fit comes back as it is.

    Which backwards run as B and which as I and W stays. With budget left over, no order of those is better, unless
    boundary tensors did not fit. The same arguments give the same orders where neither deadline nor `stop` ended it.

    Parameters
    ----------
    objective
        What counts; the other of step time and span breaks ties.
    floor_ns
        A certified bound on the objective: nothing is tried once it is reached.
    deterministic_time
        CP-SAT's budget, independent of the machine.
    deadline
        A time of the monotonic clock.
    stop
        Asked ten times a second; the best timeline so far is returned once it says true.
    """
    if not timeline.fits:
        return timeline
    given = Incumbent(timeline, objective)
    orders = ascending(timeline.orders)
    if timeline.pipeline.apart is not None and orders != timeline.orders:
        return timeline  # micro-batches that differ cannot take each other's names
    start = Incumbent(simulate(timeline.pipeline, orders), objective)
    if not start.timeline.fits or start.value > given.value:
        return timeline
    bound = plan_bound_ns if objective == "step" else plan_span_bound_ns
    floor_ns = max(floor_ns, bound(timeline.pipeline))
    search = _Polish(start, floor_ns, deterministic_time, math.inf if deadline is None else deadline, stop)
    search.run()
    return search.best.timeline if search.best.value < given.value else timeline


@dataclass
class _Polish:
    """One search; `time_left` is deterministic time."""

    best: Incumbent
    floor_ns: int
    time_left: float
    deadline: float
    stop: Callable[[], bool]

    def run(self) -> None:
        """Improve the incumbent by windows of growing size, at last by the whole."""
        number, size = len(self.best.sequence), FIRST_SIZE
        while size < number and not self._over():
            self._rotate(size)
            size = size * 3 // 2
        while not self._over() and self._improve(0, number, self.time_left):
            pass

    def _over(self) -> bool:
        reached = self.best.value[0] <= self.floor_ns
        return reached or self.time_left <= 0 or self.stop() or time.monotonic() > self.deadline

    def _rotate(self, size: int) -> None:
        """Try the windows of a size, each overlapping half of the next, until none improves the schedule."""
        hop = size // 2
        number = -(-len(self.best.sequence) // hop)
        waiting = set(range(number))
        while waiting and not self._over():
            idle = self._idle(hop, number)
            at = max(waiting, key=lambda at: (idle[at], -at))
            waiting.remove(at)
            if self._improve(at * hop, at * hop + size, WINDOW_TIME):
                waiting.update(range(max(at - 1, 0), min(at + 2, number)))

    def _idle(self, hop: int, number: int) -> list[int]:
        """Return for each window how long ranks wait inside it, between their first and last actions."""
        gaps = [0] * (number + 1)
        place = {action: index // hop for index, action in enumerate(self.best.sequence)}
        for actions in self.best.timeline.orders:
            for action, following in pairwise(actions):
                gaps[place[following]] += self.best.times[following][0] - self.best.times[action][1]
        return [gaps[at] + gaps[at + 1] for at in range(number)]

    def _improve(self, begin: int, end: int, budget: float) -> bool:
        """Return whether the window has a better order, which is the incumbent's from then on."""
        self.time_left -= LOOK_TIME + ACTION_TIME * len(self.best.sequence)
        window = Window(self.best, begin, end)
        reserve = [0] * self.best.pipeline.num_ranks
        for _ in range(1 + RETRIES):
            orders = self._solve(OrderModel(self.best, window, self.floor_ns, reserve), budget)
            if orders is None:
                return False
            timeline = simulate(self.best.pipeline, orders)
            if timeline.fits:
                found = Incumbent(timeline, self.best.objective)
                better = found.value < self.best.value
                self.best = found if better else self.best
                return better
            limits = zip(timeline.peak_memory_bytes, timeline.pipeline.limit_bytes, reserve, strict=True)
            reserve = [spare if limit is None else spare + max(0, peak - limit) for peak, limit, spare in limits]
        return False

    def _solve(self, model: OrderModel, budget: float) -> Orders | None:
        if model.hopeless or self._over():
            return None
        solver = new_solver(min(budget, self.time_left))
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        if math.isfinite(self.deadline):
            solver.parameters.max_time_in_seconds = max(0.01, self.deadline - time.monotonic())
        status = solve(solver, model.build(), self.stop)
        self.time_left -= float(solver.response_proto.deterministic_time)
        return model.orders(solver) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
