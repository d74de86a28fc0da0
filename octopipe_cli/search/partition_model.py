"""Where to cut for a given sequence of ranks: a CP-SAT model over cut positions, balanced in time or in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, Final

from ortools.sat.python import cp_model

from octopipe_cli.cluster import Cluster
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.atoms import AtomTable, build_atoms
from octopipe_cli.search.solver import new_solver, solve

#: How far cuts may move from where the search begins, in atoms; the next width is tried where one has no answer.
WINDOWS: Final = (5, 15, 10_000)


def balanced_cuts(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    rank_sequence: Sequence[int],
    *,
    deterministic_time: float,
    hint: Sequence[int] | None = None,
    recompute: bool = False,
    stop: Callable[[], bool] | None = None,
) -> tuple[int, ...] | None:
    """Return S + 1 cuts that make the slowest rank's start + work + step least, or None where no legal ones were found.

    The cuts keep the profile's rules, and one micro-batch at a time fits into every rank's memory.

    Parameters
    ----------
    rank_sequence
        The rank of each stage.
    deterministic_time
        CP-SAT's budget, independent of the machine; most of it is not needed for small models.
    hint
        Cuts to begin at, in place of an even share of the work for each stage.
    recompute
        Whether the stages recompute their activations.
    stop
        Asked ten times a second; the best cuts so far are returned once it says true.
    """
    objective = PartitionModel.slowest
    return _cuts(profile, cluster, request, rank_sequence, deterministic_time, hint, recompute, objective, stop)


def roomiest_cuts(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    rank_sequence: Sequence[int],
    *,
    deterministic_time: float,
    recompute: bool = False,
) -> tuple[int, ...] | None:
    """Return S + 1 cuts that leave the fullest rank most room beside one micro-batch, or None where none are legal.

    The limits may be exceeded: it is the least excess that is looked for.
    """
    return _cuts(profile, cluster, request, rank_sequence, deterministic_time, None, recompute, PartitionModel.fullest)


def _cuts(
    profile: Profile,
    cluster: Cluster,
    request: Request,
    ranks: Sequence[int],
    budget: float,
    hint: Sequence[int] | None,
    recompute: bool,
    objective: Callable[[PartitionModel], None],
    stop: Callable[[], bool] | None = None,
) -> tuple[int, ...] | None:
    table = build_atoms(profile, cluster, request)
    if table.apart:  # a micro-batch of mean length stands for all
        number = table.num_microbatches
        table = replace(
            table, times=tuple(tuple(total.shared(number) for total in totals) for totals in table.totals), apart=()
        )
    if len(ranks) > table.num_atoms:
        return None
    begin = _even(table, len(ranks)) if hint is None else _atoms_of(table, hint)
    for window in WINDOWS:
        model = PartitionModel(profile, cluster, request, table, ranks, begin, window, recompute)
        objective(model)
        cuts, budget = model.solve(budget, stop)
        if cuts is not None or (stop is not None and stop()) or window >= table.num_atoms or budget <= 0:
            return cuts
    return None


def _even(table: AtomTable, num_stages: int) -> list[int]:
    """Return atom indices that share the work out evenly, at least one atom a stage."""
    work = list(accumulate((f + b for f, b in zip(table.least("forward"), table.least("backward"), strict=True))))
    cuts = [0]
    for s in range(1, num_stages):
        goal = work[-1] * s
        at = cuts[-1] + 1
        while at < table.num_atoms - (num_stages - s) and 2 * num_stages * work[at - 1] < 2 * goal:
            at += 1
        cuts.append(at)
    return [*cuts, table.num_atoms]


def _atoms_of(table: AtomTable, cuts: Sequence[int]) -> list[int]:
    """Return cuts between layers as cuts between atoms, the nearest before where a layer is inside one."""
    atom_of = [*table.atom_of_layer(), table.num_atoms]
    return [atom_of[cut] for cut in cuts]


class PartitionModel:
    """Cut positions as variables; every cost of a stage is a difference of cumulative sums at its two cuts."""

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        request: Request,
        table: AtomTable,
        ranks: Sequence[int],
        begin: Sequence[int],
        window: int,
        recompute: bool,
    ) -> None:
        self.profile, self.cluster, self.request, self.table = profile, cluster, request, table
        self.ranks = ranks
        self.recompute = recompute or request.recompute == "full"
        self.again = self.recompute and request.recompute != "full"  # the table's times have it already where full
        self.model = cp_model.CpModel()
        stages, atoms = len(ranks), table.num_atoms
        #: at[s][p]: stage s begins with atom p; the last entry ends the last stage
        self.at = [
            {
                p: self.model.new_bool_var(f"z{s}_{p}")
                for p in range(max(s, begin[s] - window), min(atoms - stages + s, begin[s] + window) + 1)
                if 0 < s < stages or p in (0, atoms)
            }
            for s in range(stages + 1)
        ]
        self.begin = begin
        sizes = [table.sizes[t] for t in table.type_of]
        self.held = [size.inputs if self.recompute else size.activation for size in sizes]
        total = sum(size.state + size.activation + size.inputs + size.output + size.workspace for size in sizes)
        self.byte_unit = max(1, total >> 34)
        for constraint in CONSTRAINTS:
            constraint(self)

    # constraints, in the order of the list below

    def one_position_a_cut(self) -> None:
        """Every cut is at one place, each after the one before."""
        for positions in self.at:
            self.model.add_exactly_one(positions.values())
        for before, after in pairwise(self.at):
            for p in after:
                self.model.add(sum(v for q, v in after.items() if q <= p) <= sum(v for q, v in before.items() if q < p))

    def groups_share_a_rank(self) -> None:
        """Layers of a `same_rank` group are on one rank."""
        for group in self._groups(self.profile.rules.same_rank):
            for rank in sorted(set(self.ranks)):
                for atom in group[1:]:
                    self.model.add(self._on(rank, atom) == self._on(rank, group[0]))

    # objectives

    def slowest(self) -> None:
        """Minimise the largest start + work + step, and start + work + way back; each rank's memory holds."""
        self.fits(0)
        total = self.model.new_int_var(0, 2**60, "T")
        number = self.request.num_microbatches
        starts = {rank: self.ranks.index(rank) for rank in self.ranks}
        for rank, first in starts.items():
            own = [s for s, r in enumerate(self.ranks) if r == rank]
            launches = 2 * number * len(own) * self.table.overhead_ns
            head, back = self._way(first, "forward"), self._way(first, "gradient")
            again = self._work(own, "forward") if self.again else 0
            work = self._work(own, "forward") + again
            self.model.add(
                total >= head + number * (work + self._work(own, "backward")) + launches + self._work(own, "step")
            )
            self.model.add(total >= head + number * (work + self._work(own, "gradient")) + launches + back)
        self.model.minimize(total)

    def fullest(self) -> None:
        """Minimise by how much the fullest rank exceeds its limit."""
        excess = self.model.new_int_var(-(2**45), 2**45, "excess")
        self.fits(excess)
        self.model.minimize(excess)

    def fits(self, excess: Any) -> None:
        """Each rank's memory holds one micro-batch: at the backward of each stage, what the stages up to it keep."""
        for rank in sorted(set(self.ranks)):
            limit = self.cluster.members[rank].memory_limit_bytes
            if limit is None:
                continue
            own = [s for s, r in enumerate(self.ranks) if r == rank]
            state = sum(self._sum(s, [self._up(self.table.sizes[t].state) for t in self.table.type_of]) for s in own)
            state += self._copies(rank)
            held: Any = 0
            for s in own:
                held = held + self._sum(s, [self._up(size) for size in self.held])
                beside = self._beside(s)
                self.model.add(state + held + beside <= limit // self.byte_unit + excess)

    def solve(self, budget: float, stop: Callable[[], bool] | None = None) -> tuple[tuple[int, ...] | None, float]:
        """Return the best cuts found, as layer indices, and what is left of the deterministic budget."""
        best: list[int] | None = None
        # search without linear relaxations is quick far from the best, neighbourhoods are near it
        for neighbourhoods, share in ((False, budget / 2), (True, budget / 2)):
            self.model.clear_hints()  # type: ignore[no-untyped-call]
            for positions, p in zip(self.at, best or self.begin, strict=True):
                for q, variable in positions.items():
                    self.model.add_hint(variable, p == q)
            solver = new_solver(share)
            solver.parameters.cp_model_probing_level = 0
            solver.parameters.linearization_level = 0
            solver.parameters.interleave_search = neighbourhoods
            solver.parameters.use_lns_only = neighbourhoods
            status = solve(solver, self.model, stop)
            budget -= float(solver.response_proto.deterministic_time)
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                best = [next(p for p, v in positions.items() if solver.boolean_value(v)) for positions in self.at]
            if best is None or status == cp_model.OPTIMAL:
                break
        return None if best is None else tuple(self.table.starts[p] for p in best), budget

    # terms

    def _up(self, size: int) -> int:
        return -(-size // self.byte_unit)

    def _sum(self, stage: int, values: Sequence[int]) -> Any:
        """Return the sum of atoms' values over a stage."""
        total = [0, *accumulate(values)]
        end = sum(total[p] * v for p, v in self.at[stage + 1].items())
        return end - sum(total[p] * v for p, v in self.at[stage].items())

    def _time(self, stage: int, field: str) -> Any:
        times = self.table.times[self.table.class_of[self.ranks[stage]]]
        return self._sum(stage, [getattr(times[t], field) for t in self.table.type_of])

    def _work(self, stages: Sequence[int], field: str) -> Any:
        return sum(self._time(s, field) for s in stages)

    def _way(self, stage: int, field: str) -> Any:
        """Return the path between layer 0 and a stage's first layer: forward to it, or the gradient back from it."""
        ends = (0, 1) if field == "forward" else (1, 0)
        way: Any = stage * self.table.overhead_ns
        for s in range(stage):
            pair = (self.ranks[s + ends[0]], self.ranks[s + ends[1]])
            way = way + self._time(s, field)
            if self.again and field == "gradient":
                way = way + self._time(s, "forward")
            way = way + sum(
                self.cluster.transfer_ns(self.table.sizes[self.table.type_of[p - 1]].output, *pair) * v
                for p, v in self.at[s + 1].items()
            )
        return way

    def _in(self, stage: int, atom: int) -> Any:
        """Return 1 where the stage holds the atom: it begins at or before it and ends after it."""
        begun = sum(v for p, v in self.at[stage].items() if p <= atom)
        return begun - sum(v for p, v in self.at[stage + 1].items() if p <= atom)

    def _on(self, rank: int, atom: int) -> Any:
        return sum(self._in(s, atom) for s, r in enumerate(self.ranks) if r == rank)

    def _groups(self, groups: Sequence[Sequence[int]]) -> list[list[int]]:
        atom_of = self.table.atom_of_layer()
        return [[atom_of[layer] for layer in group] for group in groups]

    def _copies(self, rank: int) -> Any:
        """Return the bytes of tied weights' copies: a rank that holds others of a group without the first."""
        total: Any = 0
        for layers, atoms in zip(self.profile.rules.tied, self._groups(self.profile.rules.tied), strict=True):
            copy = self.model.new_bool_var("")
            for atom in atoms[1:]:
                self.model.add(copy >= self._on(rank, atom) - self._on(rank, atoms[0]))
            total = total + self._up(self.profile.kind_of(layers[0]).state_bytes) * copy
        return total

    def _beside(self, stage: int) -> Any:
        """Return what a stage's backward needs besides what is held: workspace, recomputed activations, gradient."""
        sizes = [self.table.sizes[t] for t in self.table.type_of]
        outputs = [self._up(size.output) for size in sizes]
        outputs[-1] = 0  # nothing comes back to the last layer
        total: Any = sum(outputs[p - 1] * v for p, v in self.at[stage + 1].items())
        parts = [[size.workspace for size in sizes]]
        if self.recompute:
            parts.append([size.largest for size in sizes])
        for values in parts:
            first, stop = min(self.at[stage]), max(self.at[stage + 1])
            least = min(values[first:stop])
            most = self.model.new_int_var(self._up(least), self._up(max(values[first:stop])), "")
            for atom in range(first, stop):
                if values[atom] > least:
                    self.model.add(most >= self._up(values[atom]) * self._in(stage, atom))
            total = total + most
        return total


CONSTRAINTS: Final = (PartitionModel.one_position_a_cut, PartitionModel.groups_share_a_rank)
