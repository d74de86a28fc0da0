"""The relaxation as a CP-SAT model: who holds what, not the orders.

Ranks are looked at in the order in which they open: the rank at position j holds the j-th first layer. Atoms of one
type are interchangeable but for those first layers, so a position is described by where it opens and by how many
atoms of each type it holds. Whatever such a description leaves open is left to the plan's advantage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ortools.sat.python import cp_model

from octopipe_cli.cluster import P2P
from octopipe_cli.plan import BoundArgument, Request
from octopipe_cli.search.atoms import AtomTable
from octopipe_cli.search.closed_bounds import areas, free_bytes
from octopipe_cli.search.engine_view import FIXED_ORDERS
from octopipe_cli.search.relaxed_turns import memory_at_the_turns

#: How many atoms past its earliest a position's opening is told apart; later ones count as one.
OPENING_WINDOW: Final = 12
MEBIBYTE: Final = 2**20


def goes_deeper(table: AtomTable, request: Request, span: bool) -> bool:
    """Return whether the arguments that cost most time, left out of a model that is not `deep`, say anything."""
    turns = table.limited or _one_f_one_b(request)
    return len(table.classes) > 1 or (turns and not span)


def _one_f_one_b(request: Request) -> bool:
    return request.max_stages_per_rank == 1 and request.engine in FIXED_ORDERS


class Relaxation:
    """The relaxation for one clock tick (`unit` ns): times are rounded down, so that its optimum x unit is a bound."""

    def __init__(
        self, table: AtomTable, request: Request, unit: int, least: int, *, p2p: P2P, span: bool, deep: bool
    ) -> None:
        self.table, self.request, self.unit, self.span = table, request, unit, span
        #: with the arguments that cost most time: memory at the turns, the way through ranks that differ
        self.deep = deep
        self.least, self.blocking = least, p2p == "blocking"
        self.num_microbatches = request.num_microbatches
        self.positions = range(table.num_ranks)
        self.kinds = range(table.num_types)
        self.model = cp_model.CpModel()
        #: what a plan's terms may lose against their sum where each is rounded down
        self.loose = 4 * table.num_atoms + 4 * table.num_ranks + 8
        #: what the objective is no less than, and the name of the argument
        self.reasons: list[tuple[BoundArgument, Any]] = []
        self.areas: tuple[Any, int] = (0, 1)
        self.contiguous = request.max_stages_per_rank == 1
        self.limited, self.one_f_one_b = table.limited, _one_f_one_b(request)
        self.total = self.model.new_int_var(least, least + self.most_ns() // unit + 8, "T")
        self._variables()

    def build(self) -> cp_model.CpModel:
        """Return the model: minimise the step time (or span) under all constraints."""
        for constraint in CONSTRAINTS:
            constraint(self)
        self.model.minimize(self.total)
        return self.model

    def argument(self, solver: cp_model.CpSolver) -> BoundArgument:
        """Return the name of the argument that binds in the solver's solution: the largest, the first of equals."""
        argument, value = max(self.reasons, key=lambda reason: solver.value(reason[1]))
        area, capacity = self.areas
        return "memory over time" if solver.value(area) > solver.value(value) * capacity else argument

    def most_ns(self) -> int:
        """Return more than any description costs: everything one after another, twice, and the memory's bound."""
        table, number = self.table, self.num_microbatches
        work: int = sum(
            count * max(2 * entry.forward + entry.backward + entry.step for entry in entries)
            for entries, count in zip(zip(*table.totals, strict=True), table.counts, strict=True)
        )
        paths = max(one.path("forward")[-1] + one.path("backward")[-1] for one, _ in table.each)
        paths += 4 * max(sum(one.lag_ns) for one, _ in table.each)
        sends = max(table.lag_ns) if self.blocking else 0
        launches = 8 * (number + table.num_ranks) * (table.overhead_ns + sends)
        free = free_bytes(table) or 0
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
            self.model.add(sum(self.held(j, t) for j in self.positions) == self.table.counts[t])
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
                self.model.add(self.held(j, t) >= sum(exact))

    def earlier_atoms_are_on_earlier_positions(self) -> None:
        """What lies before position j's first atom is on the positions before j (load of the early ones)."""
        for j in self.positions[1:]:
            for t in self.kinds:
                before = sum(self._number_before(a, t) * v for a, v in self.opens[j].items())
                held = sum(self.held(i, t) for i in range(j))
                self.model.add(held == before if self.contiguous else held >= before)

    def work_after_the_start(self) -> None:
        """Load: a rank starts no earlier than its first layer is reached, does all its work and steps."""
        for j in self.positions:
            work = self.work(j, lambda t: t.forward + t.backward + t.step, lambda t: t.forward)
            work = work + self._sent_forward(j) + self._sent_back(j)
            start: Any = 0 if self.span else self.start(j)
            self.at_least("load", start + work + self.ticks(self._launches()))

    def inputs_before_the_way_back(self) -> None:
        """Load and path: after a rank's last I or B its micro-batch goes on to layer 0, whose rank does W and steps."""
        for j in self.positions[1:]:
            work = self.work(j, lambda t: t.forward + t.gradient, lambda t: t.forward)
            work = work + self._sent_forward(j) + self._sent_back(j)
            self.at_least("round trip", self.start(j) + work + self.ticks(self._launches()) + self._way_back(j))

    def way_there_before_the_gradients(self) -> None:
        """Path and load: no I or B before one micro-batch has passed all layers; few micro-batches make that bind."""
        if self.span:
            return
        there = self.through("forward")
        for j in self.positions:
            work = self.work(j, lambda t: t.backward + t.step, lambda t: t.forward)
            self.at_least("gradients", there + self.beyond(j, "gradient") + work + self._sent_back(j))

    def memory_at_the_turns(self) -> None:
        """Warm-up and cool-down: before the first I or B, and after the last F, memory limits what a rank can do."""
        if self.deep and (self.limited or self.one_f_one_b) and not self.span:
            memory_at_the_turns(self)

    def one_micro_batch(self) -> None:
        """Path: one micro-batch through all layers and back."""
        table = self.table
        # rounded down but once
        ways = [self.ticks(max(one.path("forward")[-1] + one.path("gradient")[-1] for one, _ in table.each))]
        if len(table.classes) > 1 and self.deep:
            ways.append(self.through("forward") + self.through("gradient"))
        launches = self.ticks(2 * table.num_ranks * table.overhead_ns)
        changes = sum(v * self.ticks(2 * table.lag_ns[a - 1]) for j in self.positions[1:] for a, v in self._exact(j))
        for way in ways:
            self.at_least("path", way + launches + changes + self.last_weights())

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
        free = free_bytes(self.table)
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
        self.areas = (need - sum(terms), capacity)

    # terms

    def ticks(self, nanoseconds: int) -> int:
        """Return a time in whole ticks, rounded down."""
        return nanoseconds // self.unit

    def _exact(self, j: int) -> Iterable[tuple[int, Any]]:
        """Return the atoms at which position j surely opens where the variable is 1."""
        entries = list(self.opens[j].items())
        whole = entries[-1][0] == self.table.num_atoms - self.table.num_ranks + j
        return entries if whole else entries[:-1]

    def held(self, j: int, t: int) -> Any:
        """Return how many atoms of a type position j holds."""
        return sum(entry[t] for entry in self.count[j])

    def at_least(self, argument: BoundArgument, value: Any) -> None:
        """Bound the objective from below, for a reason that has a name."""
        self.model.add(self.total >= value)
        self.reasons.append((argument, value))

    def through(self, field: str) -> Any:
        """Return how long one micro-batch's forwards or gradients take through all layers, links and launches aside."""
        if len(self.table.classes) == 1 or not self.deep:
            return self.ticks(self.table.path(field)[-1])
        return self._through(field, self.positions)

    def _through(self, field: str, positions: Iterable[int]) -> Any:
        """Return the same for the atoms of some positions, on the ranks they are on; each is run once."""
        terms: list[Any] = []
        for j in positions:
            for c, times in enumerate(self.table.times):
                for t, entry in enumerate(times):
                    terms.append(self.ticks(getattr(entry, field)) * self.count[j][c][t])
                    if field == "gradient":
                        terms.append(self.ticks(entry.forward) * self.again[j][c][t])
        return sum(terms)

    def beyond(self, j: int, field: str) -> Any:
        """Return how long a micro-batch is on its way past position j's deepest layer, to the last or back from it."""
        table = self.table
        if self.contiguous:
            hops = sum(self._entered(i) for i in self.positions[j + 1 :])
            return self._through(field, self.positions[j + 1 :]) + hops
        last = table.type_of[-1]
        if table.counts[last] > 1:
            return 0
        return self.ticks(table.least(field)[-1] + self.least_hop_ns()) * (1 - self.held(j, last))

    def least_hop_ns(self) -> int:
        """Return the least time a transfer takes."""
        return min(self.table.lag_ns[:-1], default=0)

    def _sent_forward(self, j: int) -> Any:
        """Return how long blocking transfers keep a rank, at the least: each micro-batch leaves it for later layers.

        All ranks but the one of the last layer, and the first one that even then: other layers are elsewhere.
        """
        table = self.table
        last = table.type_of[-1]
        if not self.blocking or table.num_ranks == 1:
            return 0
        sends = self.ticks(self.num_microbatches * self.least_hop_ns())
        if j == 0:
            return sends
        return sends * (1 - self.held(j, last)) if table.counts[last] == 1 else 0

    def _sent_back(self, j: int) -> Any:
        """Return the same for gradients: back from where the rank opens; after the last of them it is free."""
        table = self.table
        if not self.blocking or table.num_ranks == 1:
            return 0
        number = self.num_microbatches - 1
        if j:
            return sum(self.ticks(number * table.lag_ns[a - 1]) * v for a, v in self._exact(j))
        last = table.type_of[-1]  # with the last layer too, the first rank is entered again
        return self.ticks(number * self.least_hop_ns()) * self.held(0, last) if table.counts[last] == 1 else 0

    def _entered(self, j: int) -> Any:
        """Return launch and transfer where position j opens."""
        return sum(v * self.ticks(self.table.overhead_ns + self.table.lag_ns[a - 1]) for a, v in self._exact(j))

    def _number_before(self, atom: int, t: int) -> int:
        return self.table.type_of[:atom].count(t)

    def _launches(self) -> int:
        """Every rank has a stage, with an F and an I or B for each micro-batch."""
        return 2 * self.num_microbatches * self.table.overhead_ns

    def work(self, j: int, work: Callable[..., int], repeated: Callable[..., int]) -> Any:
        """Return a sum over position j's atoms, and over those of them that it recomputes."""
        terms = []
        for c, totals in enumerate(self.table.totals):
            for t, entry in enumerate(totals):
                terms.append(self.ticks(work(entry)) * self.count[j][c][t])
                terms.append(self.ticks(repeated(entry)) * self.again[j][c][t])
        return sum(terms)

    def openings(self, j: int) -> Any:
        """Return launches and transfers on the way from layer 0 to where position j opens: one each for every entry."""
        return sum(self._entered(i) for i in range(1, j + 1))

    def start(self, j: int) -> Any:
        """Return when position j can start."""
        if self.contiguous:
            return self._through("forward", range(j)) + self.openings(j)
        path = self.table.path("forward")
        return sum(self.ticks(path[a]) * v for a, v in self.opens[j].items()) + self.openings(j)

    def _way_back(self, j: int) -> Any:
        if self.contiguous:
            return self._through("gradient", range(j)) + self.openings(j) + self.last_weights()
        path = self.table.path("gradient")
        way = sum(self.ticks(path[a]) * v for a, v in self.opens[j].items())
        return way + self.openings(j) + self.last_weights()

    def last_weights(self) -> Any:
        """Return what the first rank still does after its last gradient arrives: W of its first run of layers, step."""
        table = self.table
        weight = table.path("weight")
        step = sum(
            self.ticks(entry.step) * self.count[0][c][t]
            for c, times in enumerate(table.times)
            for t, entry in enumerate(times)
        )
        if table.num_ranks == 1:
            return self.ticks(weight[-1]) + step
        return sum(self.ticks(weight[a]) * v for a, v in self.opens[1].items()) + step

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
    Relaxation.memory_at_the_turns,
    Relaxation.one_micro_batch,
    Relaxation.memory_holds_one_micro_batch,
    Relaxation.memory_over_time,
)
