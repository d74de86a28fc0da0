"""A bound from packing alone: layers are whole, so ranks cannot share the work evenly.

What one rank may hold is a configuration: how many atoms of each type. For a step time T, each rank has one whose load
ends by T, counted from the earliest time at which that many ranks can have started, and all atoms are held. Where
CP-SAT proves that there is no such choice, no plan is as fast as T. (Gilmore and Gomory's pattern formulation, 1961.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ortools.sat.python import cp_model

from octopipe_cli.plan import Request
from octopipe_cli.search.atoms import AtomBytes, AtomTable
from octopipe_cli.search.solver import new_solver, solve

#: More configurations than these are not listed: few ranks with many layers, which other arguments serve better.
MOST_CONFIGURATIONS: Final = 40_000
#: Starts of ranks are told apart by so many levels.
LEVELS: Final = 6
#: How far the bound is searched: in this share of what it is.
RESOLUTION: Final = 2**13

Configuration = tuple[int, ...]


def packing_ns(
    table: AtomTable,
    request: Request,
    least: int,
    most: int,
    *,
    span: bool,
    budget: float,
    stop: Callable[[], bool] | None = None,
) -> int:
    """Return a lower bound on the step time (or span) from `least` up to `most`; `least` where it has nothing to say.

    Parameters
    ----------
    least, most
        A bound that is known, and a value beyond which nothing is asked.
    budget
        CP-SAT's deterministic time for all questions together.
    stop
        Asked ten times a second; what is proven by then is returned once it says true.
    """
    packing = _Packing(table, request, span, budget, stop)
    while packing.too_many(most):
        most = least + (most - least) // 2
        if 50 * (most - least) < least:
            return least
    unit = max(1, least // RESOLUTION)
    low, high = least, most
    while high - low >= unit and packing.budget > 0 and not (stop is not None and stop()):
        middle = (low + high) // 2
        if packing.impossible(middle):
            low = middle + 1
        else:
            high = middle
    return low


class _Packing:
    """The questions of one instance; `budget` is what is left of the deterministic time."""

    def __init__(
        self, table: AtomTable, request: Request, span: bool, budget: float, stop: Callable[[], bool] | None
    ) -> None:
        self.table, self.request, self.budget, self.stop = table, request, budget, stop
        self.launches = 2 * request.num_microbatches * table.overhead_ns
        self.starts = _levels([0] * table.num_ranks if span else _starts(table))

    def too_many(self, within_ns: int) -> bool:
        """Return whether there are more configurations than can be listed."""
        return any(len(self._listed(c, within_ns)) > MOST_CONFIGURATIONS for c in range(len(self.table.classes)))

    def impossible(self, within_ns: int) -> bool:
        """Return whether it is proven that no choice of configurations ends within a time."""
        table, model = self.table, cp_model.CpModel()
        held: list[list[cp_model.LinearExprT]] = [[] for _ in table.counts]
        by_level: list[list[cp_model.IntVar]] = []
        by_class: list[list[cp_model.IntVar]] = [[] for _ in table.classes]
        for level, (start, _) in enumerate(self.starts):
            by_level.append([])
            for c, count in enumerate(table.class_counts):
                for number, configuration in enumerate(_largest(self._listed(c, within_ns - start))):
                    chosen = model.new_int_var(0, count, f"x{level}_{c}_{number}")
                    by_level[level].append(chosen)
                    by_class[c].append(chosen)
                    for t, many in enumerate(configuration):
                        if many:
                            held[t].append(many * chosen)
        for (_, ranks), chosen_ones in zip(self.starts, by_level, strict=True):
            model.add(sum(chosen_ones) == ranks)
        for count, chosen_ones in zip(table.class_counts, by_class, strict=True):
            model.add(sum(chosen_ones) == count)
        for count, terms in zip(table.counts, held, strict=True):
            model.add(sum(terms) >= count)
        solver = new_solver(self.budget)
        solver.parameters.linearization_level = 2
        status = solve(solver, model, self.stop)
        self.budget -= max(float(solver.response_proto.deterministic_time), 1e-4)
        return bool(status == cp_model.INFEASIBLE)

    def _listed(self, c: int, within_ns: int) -> list[Configuration]:
        """Return the configurations of a class of ranks whose load takes no longer, one more than the most at most."""
        table = self.table
        limit = table.classes[c].limit_bytes
        loads = [time.forward + time.backward + time.step for time in table.totals[c]]
        sizes = [self._held_bytes(size) for size in table.certain_sizes]
        found: list[Configuration] = []
        stack: list[tuple[Configuration, int, int]] = [((), within_ns - self.launches, limit or 0)]
        while stack and len(found) <= MOST_CONFIGURATIONS:
            taken, time, room = stack.pop()
            t = len(taken)
            if time < 0 or (limit is not None and room < 0):
                continue
            if t == table.num_types:
                found.append(taken)
                continue
            for many in range(table.counts[t] + 1):
                if many * loads[t] > time or (limit is not None and many * sizes[t] > room):
                    break
                stack.append(((*taken, many), time - many * loads[t], room - many * sizes[t]))
        return found

    def _held_bytes(self, size: AtomBytes) -> int:
        """Return what an atom surely takes of its rank's memory when the deepest stage there runs backward."""
        kept = {"none": size.activation, "full": size.inputs, "auto": min(size.activation, size.inputs)}
        return size.state + kept[self.request.recompute]


def _starts(table: AtomTable) -> list[int]:
    """Return the earliest start of the rank that opens first, second, ...: past so many atoms, launches, transfers."""
    path, each = table.path("forward"), table.overhead_ns + min(table.lag_ns[:-1], default=0)
    return [path[j] + j * each for j in range(table.num_ranks)]


def _levels(starts: list[int]) -> list[tuple[int, int]]:
    """Return (start, how many ranks), starts rounded down to a few levels."""
    size = -(-len(starts) // LEVELS)
    return [(starts[at], len(starts[at : at + size])) for at in range(0, len(starts), size)]


def _largest(configurations: list[Configuration]) -> list[Configuration]:
    """Return the configurations that no other one of the list contains: to hold less is always possible."""
    known = set(configurations)
    return [c for c in configurations if not any((*c[:t], c[t] + 1, *c[t + 1 :]) in known for t in range(len(c)))]
