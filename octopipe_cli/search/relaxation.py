"""A certified lower bound on the step time of any plan: a CP-SAT relaxation that knows who holds what, not the orders.

Ranks are looked at in the order in which they open: the rank at position j holds the j-th first layer. Atoms of one
type are interchangeable but for those first layers, so a position is described by where it opens and by how many
atoms of each type it holds. Whatever such a description leaves open is left to the plan's advantage.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from ortools.sat.python import cp_model

from octopipe_cli.cluster import Cluster
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.atoms import AtomTable, build_atoms
from octopipe_cli.search.packing import packing_ns
from octopipe_cli.search.solver import new_solver

#: How many atoms past its earliest a position's opening is told apart; later ones count as one.
OPENING_WINDOW: Final = 12
MEBIBYTE: Final = 2**20
#: Coarse passes converge quickly; what they lose is won back by the next. Ticks the bound is counted in, by pass.
RESOLUTIONS: Final = (2**17, 2**20)


@dataclass(frozen=True, slots=True)
class CertifiedBound:
    """What no plan can beat.

    Attributes
    ----------
    step_time_ns
        No plan the request allows has a smaller step time.
    span_ns
        No plan has a smaller span; None where the objective is the step time.
    status
        ``optimal`` where the relaxation was solved to its end, else ``bounded``: a tighter bound may exist.
    argument
        What gave the bound: ``load``, ``path`` (of one micro-batch), ``memory``, ``packing`` or ``relaxation``.
    """

    step_time_ns: int
    span_ns: int | None
    status: str
    argument: str


def lower_bound(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    *,
    deterministic_time: float,
    time_limit_s: float | None = None,
    stop: Callable[[], bool] | None = None,
) -> CertifiedBound:
    """Return a lower bound on the step time (and the span) of every plan the request allows.

    Parameters
    ----------
    deterministic_time
        CP-SAT's budget, independent of the machine.
    time_limit_s
        Wall-clock net; a bound it cut short still holds, but another run may give another.
    stop
        Asked between solver calls and at every improvement; the bound so far is returned once it says true.
    """
    end = math.inf if time_limit_s is None else time.monotonic() + time_limit_s
    table = build_atoms(profile, cluster, request)
    spans = request.objective == "span"
    share = deterministic_time / 2 if spans else deterministic_time
    step, status, argument = _bound(table, request, False, share, end, stop)
    found = CertifiedBound(step, None, status, argument)
    if spans:
        span, status, argument = _bound(table, request, True, share, end, stop)
        found = CertifiedBound(max(step, span), span, status, argument)
    if not request.engine.startswith("megatron") or table.num_ranks == 1:
        return found
    return _at_most(found, fewer_ranks_ns(table, request))


def fewer_ranks_ns(table: AtomTable, request: Request) -> int:
    """Return a bound on plans that leave a rank without layers, as Megatron-LM may: no other argument speaks of them.

    All work is on the other ranks, and one micro-batch takes its way.
    """
    others, alone = (replace(table, class_of=table.class_of[:count]) for count in (table.num_ranks - 1, 1))
    return max(load_ns(others, request), path_ns(alone))


def _at_most(bound: CertifiedBound, most_ns: int) -> CertifiedBound:
    if max(bound.step_time_ns, bound.span_ns or 0) <= most_ns:
        return bound
    span = None if bound.span_ns is None else min(bound.span_ns, most_ns)
    return CertifiedBound(min(bound.step_time_ns, most_ns), span, "bounded", "load")


def _bound(
    table: AtomTable, request: Request, span: bool, budget: float, end: float, stop: Callable[[], bool] | None
) -> tuple[int, str, str]:
    known = {"load": load_ns(table, request), "path": path_ns(table), "memory": memory_ns(table, request)}
    argument = max(known, key=lambda name: known[name])
    best = known[argument]
    if best == 0 or table.num_atoms < table.num_ranks:  # nothing to do, or no plan at all
        return best, "optimal", argument
    over = stop is not None and stop()
    packed = 0 if over else packing_ns(table, request, best, best * 5 // 4, span=span, budget=budget / 4)
    if packed > best:
        best, argument = packed, "packing"
    finest = _common_divisor(table)
    units = [unit for unit in (best // ticks for ticks in RESOLUTIONS) if unit > 2 * finest]
    for at, unit in enumerate([*units, finest]):
        left = end - time.monotonic()
        if left <= 0 or (stop is not None and stop()):
            break
        share = budget / 4 if at < len(units) else budget
        model = Relaxation(table, request, unit, best // unit, span=span)
        bound, optimal, used = _solve(model.build(), share, left, stop)
        budget -= min(used, share)
        if bound * unit > best:
            best, argument = bound * unit, "relaxation"
        if optimal and unit == finest:
            return best, "optimal", argument
    return best, "bounded", argument


def load_ns(table: AtomTable, request: Request) -> int:
    """Return the bound of all the work, each atom where it is cheapest, shared out evenly; and of the largest atom."""
    least = [
        forward + backward + step
        for forward, backward, step in zip(
            table.least("forward", total=True), table.least("backward", total=True), table.least("step"), strict=True
        )
    ]
    launches = 2 * request.num_microbatches * table.overhead_ns
    return max(-(-sum(least) // table.num_ranks), max(least)) + launches


def path_ns(table: AtomTable) -> int:
    """Return the bound of one micro-batch: forwards through all atoms, backwards to the first and its weights.

    A rank that is not the first one's is entered, and left, by a transfer: at least the cheapest ones there are.
    """
    if table.apart:  # each of them must pass
        return max(path_ns(single) for single, _ in table.apart)
    changes = sum(sorted(table.lag_ns[:-1])[: table.num_ranks - 1])
    launches = 2 * table.num_ranks * table.overhead_ns
    tail = table.least("weight")[0] + table.least("step")[0]
    return table.path("forward")[-1] + table.path("gradient")[-1] + 2 * changes + launches + tail


def memory_ns(table: AtomTable, request: Request) -> int:
    """Return the bound of the area under the memory curves: what must be held for how long, over what there is."""
    free = _free_bytes(table)
    if free is None or free <= 0:
        return 0
    plain, saved = areas(table, request)
    least = sum(min(whole, whole - less) for whole, less in zip(plain, saved, strict=True))
    return -(-least // free)


def areas(table: AtomTable, request: Request) -> tuple[list[int], list[int]]:
    """Return for each atom the least byte-nanoseconds that is held of it, and what recomputation saves of them."""
    plain, saved = [0] * table.num_atoms, [0] * table.num_atoms
    for single, count in table.each:
        for a, (whole, less) in enumerate(zip(*_areas_of_one(single, request), strict=True)):
            plain[a] += count * whole
            saved[a] += count * less
    return plain, saved


def _areas_of_one(table: AtomTable, request: Request) -> tuple[list[int], list[int]]:
    """Return the same for one micro-batch.

    An activation lives at least as long as it takes the micro-batch to go on to the last layer and come back.
    """
    forward, gradient, weight = table.least("forward"), table.least("gradient"), table.least("weight")
    to_go = [f + g for f, g in zip(forward, gradient, strict=True)]
    plain, saved = [], []
    left = sum(to_go) + 2 * table.overhead_ns
    for a, t in enumerate(table.type_of):
        size = table.sizes[t]
        f, g, w = forward[a], gradient[a], weight[a]
        kept = size.activation * left + min(size.activation, size.weight) * w + size.workspace * (f + g)
        again = 0 if request.recompute == "full" else f
        small = size.inputs * (left + again) + size.largest * (g + again) + min(size.inputs, size.weight) * w
        small += size.workspace * (f + g + again)
        plain.append(small if request.recompute == "full" else kept)
        saved.append(kept - small if request.recompute == "auto" else 0)
        left -= to_go[a]
    return plain, saved


def _free_bytes(table: AtomTable) -> int | None:
    """Return what all ranks together have besides the layers' states; None where a rank is unlimited."""
    total = 0
    for c, count in enumerate(table.class_counts):
        limit = table.classes[c].limit_bytes
        if limit is None:
            return None
        total += count * limit
    return total - sum(table.sizes[t].state for t in table.type_of)


def _common_divisor(table: AtomTable) -> int:
    values: list[int] = [table.overhead_ns, *table.lag_ns]
    for times in (*table.times, *table.totals):
        for entry in times:
            values += entry
    return math.gcd(*values) or 1


def _solve(
    model: cp_model.CpModel, deterministic_time: float, time_limit_s: float, stop: Callable[[], bool] | None
) -> tuple[int, bool, float]:
    """Return the certified bound on a model's objective, whether it was solved, and the deterministic time it took."""
    solver = new_solver(deterministic_time)
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_probing_level = 0
    if math.isfinite(time_limit_s):
        solver.parameters.max_time_in_seconds = time_limit_s
    if stop is not None:
        solver.best_bound_callback = lambda _: solver.stop_search() if stop() else None
    status = solver.solve(model)
    used = float(solver.response_proto.deterministic_time)
    assert status != cp_model.MODEL_INVALID, model.validate()
    if status == cp_model.INFEASIBLE:
        return 0, False, used  # no plan fits: `least_memory` says so; any bound holds then
    return math.ceil(solver.best_objective_bound - 1e-6), status == cp_model.OPTIMAL, used


class Relaxation:
    """The relaxation for one clock tick (`unit` ns): times are rounded down, so that its optimum x unit is a bound."""

    def __init__(self, table: AtomTable, request: Request, unit: int, least: int, *, span: bool) -> None:
        self.table, self.request, self.unit, self.span = table, request, unit, span
        self.num_microbatches = request.num_microbatches
        self.positions = range(table.num_ranks)
        self.kinds = range(table.num_types)
        self.model = cp_model.CpModel()
        self.contiguous = request.max_stages_per_rank == 1
        self.limited = any(rank.limit_bytes is not None for rank in table.classes)
        self.total = self.model.new_int_var(least, least + self._most() // unit + 8, "T")
        self._variables()

    def build(self) -> cp_model.CpModel:
        """Return the model: minimise the step time (or span) under all constraints."""
        for constraint in CONSTRAINTS:
            constraint(self)
        self.model.minimize(self.total)
        return self.model

    def _most(self) -> int:
        """Return more than any description costs: everything one after another, twice, and the memory's bound."""
        table, number = self.table, self.num_microbatches
        work: int = sum(
            count * max(2 * entry.forward + entry.backward + entry.step for entry in entries)
            for entries, count in zip(zip(*table.totals, strict=True), table.counts, strict=True)
        )
        paths = max(one.path("forward")[-1] + one.path("backward")[-1] for one, _ in table.each)
        paths += 4 * max(sum(one.lag_ns) for one, _ in table.each)
        launches = 8 * (number + table.num_ranks) * table.overhead_ns
        free = _free_bytes(table) or 0
        area: int = sum(areas(table, self.request)[0]) // free if free > 0 else 0
        return 2 * (work + paths + launches) + area

    def _variables(self) -> None:
        table, model = self.table, self.model
        ranks = table.num_ranks
        window = table.num_atoms if self.contiguous else OPENING_WINDOW
        #: opens[j][a]: position j opens at atom a; at the last key of its window, there or later
        self.opens = [
            {a: model.new_bool_var(f"o{j}_{a}") for a in range(j, min(j + window + 2, table.num_atoms - ranks + j + 1))}
            for j in self.positions
        ]
        for a, variable in self.opens[0].items():
            if a:
                model.add(variable == 0)
        #: is_class[j][c]: the rank at position j is of class c
        self.is_class = [[model.new_bool_var(f"c{j}_{c}") for c in range(len(table.classes))] for j in self.positions]
        #: count[j][c][t]: how many atoms of type t position j holds; 0 where it is not of class c
        self.count = [
            [
                [model.new_int_var(0, table.counts[t], f"n{j}_{c}_{t}") for t in self.kinds]
                for c in range(len(table.classes))
            ]
            for j in self.positions
        ]
        #: again[j][c][t]: how many of them are recomputed
        self.again: list[list[list[Any]]] = [[[0] * table.num_types for _ in table.classes] for _ in self.positions]
        if self.request.recompute == "auto" and self.limited:
            self.again = [
                [
                    [model.new_int_var(0, table.counts[t], f"r{j}_{c}_{t}") for t in self.kinds]
                    for c in range(len(table.classes))
                ]
                for j in self.positions
            ]

    # constraints, in the order of the list below

    def each_rank_opens_once(self) -> None:
        """A rank has a first layer, and positions are numbered in the order of those (the start of every bound)."""
        for j in self.positions:
            self.model.add_exactly_one(self.opens[j].values())
        for before, after in zip(self.opens, self.opens[1:], strict=False):
            for a in list(after)[:-1]:
                earlier = sum(v for b, v in before.items() if b < a)
                self.model.add(sum(v for b, v in after.items() if b <= a) <= earlier)

    def ranks_are_those_of_the_cluster(self) -> None:
        """Each position is one rank; cyclic and V placements open the ranks in their order."""
        for j in self.positions:
            self.model.add_exactly_one(self.is_class[j])
            if self.request.placement != "free":
                self.model.add(self.is_class[j][self.table.class_of[j]] == 1)
        for c, count in enumerate(self.table.class_counts):
            self.model.add(sum(self.is_class[j][c] for j in self.positions) == count)

    def each_atom_is_somewhere(self) -> None:
        """Every atom is held once (load)."""
        for t in self.kinds:
            self.model.add(sum(self._held(j, t) for j in self.positions) == self.table.counts[t])
        for j in self.positions:
            for c, entry in enumerate(self.count[j]):
                if len(self.table.classes) > 1:
                    for t in self.kinds:
                        self.model.add(entry[t] <= self.table.counts[t] * self.is_class[j][c])
                for t in self.kinds:
                    if not isinstance(self.again[j][c][t], int):
                        self.model.add(self.again[j][c][t] <= entry[t])

    def first_layers_are_held(self) -> None:
        """A position holds at least the atom it opens with (load)."""
        for j in self.positions:
            for t in self.kinds:
                exact = [v for a, v in self._exact(j) if self.table.type_of[a] == t]
                self.model.add(self._held(j, t) >= sum(exact))

    def earlier_atoms_are_on_earlier_positions(self) -> None:
        """What lies before position j's first atom is on the positions before j (load of the early ones)."""
        for j in self.positions[1:]:
            for t in self.kinds:
                before = sum(self._number_before(a, t) * v for a, v in self.opens[j].items())
                held = sum(self._held(i, t) for i in range(j))
                self.model.add(held == before if self.contiguous else held >= before)

    def work_after_the_start(self) -> None:
        """Load: a rank starts no earlier than its first layer is reached, does all its work and steps."""
        for j in self.positions:
            work = self._sum(j, lambda t: t.forward + t.backward + t.step, lambda t: t.forward)
            start: Any = 0 if self.span else self._start(j)
            self.model.add(self.total >= start + work + self._ticks(self._launches()))

    def inputs_before_the_way_back(self) -> None:
        """Load and path: after a rank's last I or B its micro-batch goes on to layer 0, whose rank does W and steps."""
        for j in self.positions[1:]:
            work = self._sum(j, lambda t: t.forward + t.gradient, lambda t: t.forward)
            self.model.add(self.total >= self._start(j) + work + self._ticks(self._launches()) + self._way_back(j))

    def way_there_before_the_gradients(self) -> None:
        """Path and load: no I or B before one micro-batch has passed all layers; few micro-batches make that bind."""
        if self.span:
            return
        table = self.table
        there = self._ticks(table.path("forward")[-1])
        last = table.type_of[-1]
        # elsewhere than on the last layer's rank, its gradient comes first, and a transfer
        later = self._ticks(table.least("gradient")[-1] + min(table.lag_ns[:-1], default=0))
        for j in self.positions:
            work = self._sum(j, lambda t: t.backward + t.step, lambda t: t.forward)
            elsewhere: Any = 1 - self._held(j, last) if table.counts[last] == 1 else 0
            self.model.add(self.total >= there + later * elsewhere + work)

    def one_micro_batch(self) -> None:
        """Path: one micro-batch through all layers and back."""
        table = self.table
        there = max(one.path("forward")[-1] + one.path("gradient")[-1] for one, _ in table.each)
        there += 2 * table.num_ranks * table.overhead_ns
        changes: list[Any] = [
            v * self._ticks(2 * table.lag_ns[a - 1]) for j in self.positions[1:] for a, v in self._exact(j)
        ]
        self.model.add(self.total >= self._ticks(there) + sum(changes) + self._last_weights())

    def memory_holds_one_micro_batch(self) -> None:
        """Capacity: when a rank's deepest stage starts its backward, all its stages hold that micro-batch."""
        last = self.table.type_of[-1]
        for j in self.positions:
            for c, rank in enumerate(self.table.classes):
                if rank.limit_bytes is None:
                    continue
                terms = []
                for t in self.kinds:
                    size, number, less = self.table.certain_sizes[t], self.count[j][c][t], self.again[j][c][t]
                    kept = size.inputs if self.request.recompute == "full" else size.activation
                    terms.append((size.state + kept) // MEBIBYTE * number)
                    terms.append(-(-(size.activation - size.inputs) // MEBIBYTE) * -less)
                inner = min((self._top_bytes(t, 0) for t in self.table.type_of[:-1]), default=0) // MEBIBYTE
                outer = self._top_bytes(last, self.table.certain_sizes[last].output) // MEBIBYTE
                inner = min(inner, outer) if self.table.counts[last] > 1 else inner
                held_last = self.count[j][c][last] if self.table.counts[last] == 1 else 0
                extra = inner * (self.is_class[j][c] - held_last) + outer * held_last
                self.model.add(sum(terms) + extra <= -(-rank.limit_bytes // MEBIBYTE) * self.is_class[j][c])

    def memory_over_time(self) -> None:
        """Area: all that is held, for as long as it must be, fits into the free memory x time of all ranks."""
        free = _free_bytes(self.table)
        if free is None or free <= 0:
            return
        scale = MEBIBYTE * self.unit
        plain, saved = areas(self.table, self.request)
        terms: list[Any] = []
        for t in self.kinds:
            members = [a for a, kind in enumerate(self.table.type_of) if kind == t]
            if isinstance(self.again[0][0][t], int):
                continue
            chosen = [self.model.new_bool_var(f"a{a}") for a in members]
            self.model.add(
                sum(chosen) == sum(self.again[j][c][t] for j in self.positions for c in range(len(self.table.classes)))
            )
            terms += [v * -(-saved[a] // scale) for v, a in zip(chosen, members, strict=True)]
        capacity = -(-free // MEBIBYTE)
        need = sum(plain) // scale
        self.model.add(self.total * capacity >= need - sum(terms) - capacity + 1)

    # terms

    def _ticks(self, nanoseconds: int) -> int:
        return nanoseconds // self.unit

    def _exact(self, j: int) -> Iterable[tuple[int, Any]]:
        """Return the atoms at which position j surely opens where the variable is 1."""
        entries = list(self.opens[j].items())
        whole = entries[-1][0] == self.table.num_atoms - self.table.num_ranks + j
        return entries if whole else entries[:-1]

    def _held(self, j: int, t: int) -> Any:
        return sum(entry[t] for entry in self.count[j])

    def _number_before(self, atom: int, t: int) -> int:
        return self.table.type_of[:atom].count(t)

    def _launches(self) -> int:
        """Every rank has a stage, with an F and an I or B for each micro-batch."""
        return 2 * self.num_microbatches * self.table.overhead_ns

    def _sum(self, j: int, work: Callable[..., int], repeated: Callable[..., int]) -> Any:
        terms = []
        for c, totals in enumerate(self.table.totals):
            for t, entry in enumerate(totals):
                terms.append(self._ticks(work(entry)) * self.count[j][c][t])
                terms.append(self._ticks(repeated(entry)) * self.again[j][c][t])
        return sum(terms)

    def _openings(self, j: int) -> Any:
        """Return launches and transfers on the way from layer 0 to where position j opens: one each for every entry."""
        return sum(
            v * self._ticks(self.table.overhead_ns + self.table.lag_ns[a - 1])
            for i in range(1, j + 1)
            for a, v in self._exact(i)
        )

    def _start(self, j: int) -> Any:
        path = self.table.path("forward")
        return sum(self._ticks(path[a]) * v for a, v in self.opens[j].items()) + self._openings(j)

    def _way_back(self, j: int) -> Any:
        path = self.table.path("gradient")
        way = sum(self._ticks(path[a]) * v for a, v in self.opens[j].items())
        return way + self._openings(j) + self._last_weights()

    def _last_weights(self) -> Any:
        """Return what the first rank still does after its last gradient arrives: W of its first run of layers, step."""
        table = self.table
        weight = table.path("weight")
        step = sum(
            self._ticks(entry.step) * self.count[0][c][t]
            for c, times in enumerate(table.times)
            for t, entry in enumerate(times)
        )
        if table.num_ranks == 1:
            return self._ticks(weight[-1]) + step
        return sum(self._ticks(weight[a]) * v for a, v in self.opens[1].items()) + step

    def _top_bytes(self, t: int, without: int) -> int:
        """Return what the backward of a rank's deepest stage needs besides what is held: workspace, gradient."""
        size = self.table.certain_sizes[t]
        return size.workspace + size.output - without


CONSTRAINTS: Final = (
    Relaxation.each_rank_opens_once,
    Relaxation.ranks_are_those_of_the_cluster,
    Relaxation.each_atom_is_somewhere,
    Relaxation.first_layers_are_held,
    Relaxation.earlier_atoms_are_on_earlier_positions,
    Relaxation.work_after_the_start,
    Relaxation.inputs_before_the_way_back,
    Relaxation.way_there_before_the_gradients,
    Relaxation.one_micro_batch,
    Relaxation.memory_holds_one_micro_batch,
    Relaxation.memory_over_time,
)
