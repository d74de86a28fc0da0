"""How much memory the fullest rank needs at the least: one stage a rank, by counts, and layer by layer.

What a rank needs at the least is what it needs when micro-batches run one after another: its layers' state and, at
the backward of each of its stages, what that and its earlier stages keep, workspace and gradient. Every other order
holds at least as much. `excess` is by how much the fullest rank exceeds its limit, negative where room is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ortools.sat.python import cp_model

from octopipe_cli.cluster import Cluster
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.atoms import AtomBytes, AtomTable
from octopipe_cli.search.solver import new_solver

NO_LIMIT: Final = 2**60
MOST_STATES: Final = 500
MOST_BOOLEANS: Final = 4000


class Answer(NamedTuple):
    """The least excess found, the assignment that has it, and whether no other with one stage a rank has less."""

    least_excess: int
    assignment: Assignment
    proven: bool


@dataclass(frozen=True)
class MemoryCase:
    """An instance as the models of memory see it."""

    profile: Profile
    cluster: Cluster
    request: Request
    table: AtomTable

    def limit(self, rank: int) -> int:
        """Return a rank's limit in bytes, a very large one where it has none."""
        limit = self.cluster.members[rank].memory_limit_bytes
        return NO_LIMIT if limit is None else limit

    @property
    def choices(self) -> tuple[bool, ...]:
        """Whether to recompute: what the request leaves open."""
        return {"none": (False,), "full": (True,), "auto": (False, True)}[self.request.recompute]

    def atoms(self, group: list[int]) -> list[int]:
        """Return the atoms of a group of layers."""
        atom_of = self.table.atom_of_layer()
        return [atom_of[layer] for layer in group]

    def size(self, atom: int, *, certain: bool = False) -> AtomBytes:
        """Return the sizes of an atom; the certain ones are held for some time whatever the stages."""
        sizes = self.table.certain_sizes if certain else self.table.sizes
        size = sizes[self.table.type_of[atom]]
        return size._replace(output=0) if atom == self.table.num_atoms - 1 else size

    def assignment(self, cuts: list[int], ranks: list[int], recompute: list[bool]) -> Assignment:
        """Return the assignment of cuts between atoms."""
        return Assignment(tuple(self.table.starts[p] for p in cuts), tuple(ranks), tuple(recompute))


def kept(size: AtomBytes, recompute: bool) -> int:
    """Return what an atom keeps from F on."""
    return size.inputs if recompute else size.activation


def beside(size: AtomBytes, recompute: bool) -> int:
    """Return what an atom needs during its backward besides what is kept."""
    return size.workspace + (size.largest if recompute else 0)


def one_stage_a_rank(case: MemoryCase) -> Answer | None:
    """Return the least excess of partitions with one stage a rank, exactly, or None where no such partition is legal.

    Where ranks differ and placement is free, every order of theirs is looked at if that can be done quickly.
    """
    table, ranks = case.table, case.cluster.num_ranks
    legal = _legal_cuts(case)
    needs = _interval_needs(case, legal)
    states = 1
    for count in table.class_counts:
        states *= count + 1
    free = case.request.placement == "free" and len(table.classes) > 1 and states <= MOST_STATES
    start = (0,) * len(table.classes)
    best: dict[tuple[int, ...], dict[int, tuple[int, int, int]]] = {start: {0: (-NO_LIMIT, -1, -1)}}
    layers = [best]
    for j in range(ranks):
        following: dict[tuple[int, ...], dict[int, tuple[int, int, int]]] = {}
        for used, reached in layers[-1].items():
            for c in range(len(table.classes)) if free else (table.class_of[j],):
                if used[c] == table.class_counts[c]:
                    continue
                target = following.setdefault(tuple(n + (i == c) for i, n in enumerate(used)), {})
                limit = table.classes[c].limit_bytes
                for first, (excess, _, _) in reached.items():
                    for stop, need in needs.get(first, ()):
                        worst = max(excess, -NO_LIMIT if limit is None else need - limit)
                        if stop not in target or worst < target[stop][0]:
                            target[stop] = (worst, first, c)
        layers.append(following)
    used = tuple(table.class_counts)
    if table.num_atoms not in layers[-1].get(used, {}):
        return None
    # where an action may take no time at all, less than what is counted here may do
    proven = (
        free or len(table.classes) == 1 or case.request.placement != "free"
    ) and table.certain_sizes == table.sizes
    return Answer(layers[-1][used][table.num_atoms][0], _unwound(case, layers, used), proven)


def _unwound(
    case: MemoryCase, layers: list[dict[tuple[int, ...], dict[int, tuple[int, int, int]]]], used: tuple[int, ...]
) -> Assignment:
    """Return the best partition the table of `one_stage_a_rank` leads back to."""
    table = case.table
    stop, cuts, classes = table.num_atoms, [table.num_atoms], []
    for reached in reversed(layers[1:]):
        _, first, c = reached[used][stop]
        cuts.append(first)
        classes.append(c)
        used = tuple(n - (i == c) for i, n in enumerate(used))
        stop = first
    cuts, classes = cuts[::-1], classes[::-1]
    members = [[r for r, c in enumerate(table.class_of) if c == wanted] for wanted in range(len(table.classes))]
    ranks = [members[c].pop(0) for c in classes]
    flags = []
    for s, rank in enumerate(ranks):
        needs = [_interval_need(case, cuts[s], cuts[s + 1], choice) for choice in case.choices]
        fitting = [choice for choice, need in zip(case.choices, needs, strict=True) if need <= case.limit(rank)]
        flags.append(fitting[0] if fitting else case.choices[needs.index(min(needs))])
    return case.assignment(cuts, ranks, flags)


def _legal_cuts(case: MemoryCase) -> list[int]:
    """Return the atoms a stage may begin with if a rank has one stage: no `same_rank` group may be cut."""
    inside: set[int] = set()
    for group in case.profile.rules.same_rank:
        atoms = case.atoms(group)
        inside.update(range(min(atoms) + 1, max(atoms) + 1))
    return [p for p in range(case.table.num_atoms + 1) if p not in inside]


def _interval_needs(case: MemoryCase, legal: list[int]) -> dict[int, list[tuple[int, int]]]:
    """Return for each legal first atom the legal ends and what a stage between them needs at the least."""
    needs: dict[int, list[tuple[int, int]]] = {}
    for first in legal[:-1]:
        ends: dict[int, int] = {}
        for choice in case.choices:
            base = largest = workspace = 0
            for stop in range(first + 1, case.table.num_atoms + 1):
                size = case.size(stop - 1)
                base += size.state + kept(size, choice)
                largest, workspace = max(largest, size.largest), max(workspace, size.workspace)
                need = base + workspace + size.output + (largest if choice else 0)
                ends[stop] = min(need, ends.get(stop, need))
        needs[first] = [(stop, ends[stop] + _copies(case, first, stop)) for stop in legal if stop > first]
    return needs


def _interval_need(case: MemoryCase, first: int, stop: int, choice: bool) -> int:
    sizes = [case.size(a) for a in range(first, stop)]
    held = sum(size.state + kept(size, choice) for size in sizes)
    running = max(size.workspace for size in sizes) + (max(size.largest for size in sizes) if choice else 0)
    return held + running + sizes[-1].output + _copies(case, first, stop)


def _copies(case: MemoryCase, first: int, stop: int) -> int:
    total = 0
    for group in case.profile.rules.tied:
        held = [first <= atom < stop for atom in case.atoms(group)]
        total += case.profile.kind_of(group[0]).state_bytes if any(held) and not held[0] else 0
    return total


class CountModel:
    """Who holds how many atoms of each type, wherever they are: a relaxation that proves what cannot fit.

    Atoms that rules speak of are told apart.
    """

    def __init__(self, case: MemoryCase) -> None:
        self.case, self.model = case, cp_model.CpModel()
        table = case.table
        self.ranks, self.kinds = range(case.cluster.num_ranks), range(table.num_types)
        rules = case.profile.rules
        groups = [case.atoms(group) for group in [*rules.same_rank, *rules.tied]]
        self.special = sorted({atom for group in groups for atom in group} | {table.num_atoms - 1})
        self.count = [[self.model.new_int_var(0, table.counts[t], f"n{r}_{t}") for t in self.kinds] for r in self.ranks]
        self.on = {(r, a): self.model.new_bool_var(f"x{r}_{a}") for r in self.ranks for a in self.special}
        sizes = table.certain_sizes
        total = sum(
            n * (s.state + s.activation + s.inputs + s.output) for n, s in zip(table.counts, sizes, strict=True)
        )
        self.unit = max(1, total >> 40)
        self.excess = self.model.new_int_var(0, 2**55, "excess")
        for constraint in (self.everything_is_held, self.rules_are_kept, self.fullest_rank):
            constraint()

    def everything_is_held(self) -> None:
        """Each atom is on one rank, and no rank is empty."""
        table = self.case.table
        for t in self.kinds:
            self.model.add(sum(self.count[r][t] for r in self.ranks) == table.counts[t])
            for r in self.ranks:
                mine = [self.on[r, a] for a in self.special if table.type_of[a] == t]
                self.model.add(self.count[r][t] >= sum(mine))
        for a in self.special:
            self.model.add_exactly_one(self.on[r, a] for r in self.ranks)
        for r in self.ranks:
            self.model.add(sum(self.count[r]) >= 1)

    def rules_are_kept(self) -> None:
        """Groups share a rank."""
        for group in self.case.profile.rules.same_rank:
            atoms = self.case.atoms(group)
            for r in self.ranks:
                for a in atoms[1:]:
                    self.model.add(self.on[r, a] == self.on[r, atoms[0]])

    def fullest_rank(self) -> None:
        """Minimise the excess: state, what is kept, and what a rank's last atom needs for its backward."""
        case, table = self.case, self.case.table
        last = table.num_atoms - 1
        least = [
            min(kept(size, choice) + size.state for choice in case.choices) // self.unit for size in table.certain_sizes
        ]
        beyond = [min(self._top(a, choice) for choice in case.choices) // self.unit for a in range(last + 1)]
        inner = min(beyond[:-1], default=0)
        for r in self.ranks:
            limit = case.cluster.members[r].memory_limit_bytes
            if limit is None:
                continue
            need: Any = sum(least[t] * self.count[r][t] for t in self.kinds) + inner
            need = need + (beyond[last] - inner) * self.on[r, last] + self._copies(r)
            self.model.add(self.excess >= need - -(-limit // self.unit))
        self.model.minimize(self.excess)

    def _top(self, atom: int, choice: bool) -> int:
        """Return what a rank's last atom needs beside the least it keeps; not recomputed, it keeps more than that."""
        size = self.case.size(atom, certain=True)
        more = kept(size, choice) - min(kept(size, other) for other in self.case.choices)
        return more + size.output + beside(size, choice)

    def _copies(self, r: int) -> Any:
        total: Any = 0
        for group in self.case.profile.rules.tied:
            copy = self.model.new_bool_var("")
            atoms = self.case.atoms(group)
            for a in atoms[1:]:
                self.model.add(copy >= self.on[r, a] - self.on[r, atoms[0]])
            total = total + self.case.profile.kind_of(group[0]).state_bytes // self.unit * copy
        return total

    def least_excess(self, deterministic_time: float) -> int:
        """Return a proven lower bound on the excess in bytes; 0 says nothing."""
        # Raising the bound from below settles small cases at once, where CP-SAT's usual search may creep up byte by
        # byte; large ones are for the usual search.
        solver = new_solver(deterministic_time / 8)
        solver.parameters.use_objective_lb_search = True
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            solver = new_solver(deterministic_time)
            status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return 0
        return int(solver.best_objective_bound + 0.5) * self.unit


class LayerModel:
    """Each atom on a rank, recomputed or not: the least excess where stages may be as short as one likes."""

    def __init__(self, case: MemoryCase) -> None:
        self.case, self.model = case, cp_model.CpModel()
        table = case.table
        self.ranks, self.atoms = range(case.cluster.num_ranks), range(table.num_atoms)
        self.on = [[self.model.new_bool_var(f"x{r}_{a}") for a in self.atoms] for r in self.ranks]
        open_choice = len(case.choices) > 1
        #: again[r][a]: rank r holds atom a and recomputes it
        self.again: list[list[Any]] = [
            [self.model.new_bool_var(f"r{r}_{a}") if open_choice else 0 for a in self.atoms] for r in self.ranks
        ]
        total = sum(s.state + s.activation + s.inputs + s.output for s in map(case.size, self.atoms))
        self.unit = max(1, total >> 34)
        self.excess = self.model.new_int_var(0, 2**50, "excess")
        for constraint in (self.everything_is_held, self.groups_share_a_rank, self.few_stages, self.fullest_rank):
            constraint()

    def everything_is_held(self) -> None:
        """Each atom is on one rank, and no rank is empty."""
        for a in self.atoms:
            self.model.add_exactly_one(self.on[r][a] for r in self.ranks)
            for r in self.ranks:
                if len(self.case.choices) > 1:
                    self.model.add_implication(self.again[r][a], self.on[r][a])
        for r in self.ranks:
            self.model.add_bool_or(self.on[r])

    def groups_share_a_rank(self) -> None:
        """Layers of a `same_rank` group are on one rank."""
        for group in self.case.profile.rules.same_rank:
            atoms = self.case.atoms(group)
            for r in self.ranks:
                for a in atoms[1:]:
                    self.model.add(self.on[r][a] == self.on[r][atoms[0]])

    def few_stages(self) -> None:
        """A rank's runs of atoms, each a stage at least, are no more than the request allows."""
        most = self.case.request.max_stages_per_rank
        if most is None:
            return
        for r in self.ranks:
            ends = []
            for a in self.atoms[:-1]:
                end = self.model.new_bool_var("")
                self.model.add(end >= self.on[r][a] - self.on[r][a + 1])
                ends.append(end)
            self.model.add(sum(ends) + self.on[r][-1] <= most)

    def fullest_rank(self) -> None:
        """Minimise the excess: at each atom's backward, what it and the rank's earlier ones keep, and beside it."""
        case = self.case
        for r in self.ranks:
            limit = case.cluster.members[r].memory_limit_bytes
            if limit is None:
                continue
            state = sum(case.size(a).state // self.unit * self.on[r][a] for a in self.atoms) + self._copies(r)
            held: Any = 0
            for a in self.atoms:
                size, on, again = case.size(a, certain=True), self.on[r][a], self.again[r][a]
                full = case.choices[0]
                held = held + kept(size, full) // self.unit * on
                here: Any = beside(size, full) // self.unit
                if len(case.choices) > 1:
                    held = held - -(-(size.activation - size.inputs) // self.unit) * again
                    here = here + size.largest // self.unit * again
                if size.output:
                    here = here + size.output // self.unit * (1 - self.on[r][a + 1])
                bound = self.model.add(self.excess >= state + held + here - -(-limit // self.unit))
                bound.only_enforce_if(on)
        self.model.minimize(self.excess)

    def _copies(self, r: int) -> Any:
        total: Any = 0
        for group in self.case.profile.rules.tied:
            copy = self.model.new_bool_var("")
            atoms = self.case.atoms(group)
            for a in atoms[1:]:
                self.model.add(copy >= self.on[r][a] - self.on[r][atoms[0]])
            total = total + self.case.profile.kind_of(group[0]).state_bytes // self.unit * copy
        return total

    def solve(self, deterministic_time: float) -> tuple[int, tuple[list[int], list[bool]] | None]:
        """Return the proven least excess in bytes, and for each atom its rank and whether it is recomputed."""
        solver = new_solver(deterministic_time)
        status = solver.solve(self.model)
        if status == cp_model.INFEASIBLE:
            return 0, None
        bound = int(solver.best_objective_bound + 0.5) * self.unit
        if status == cp_model.UNKNOWN:
            return bound, None
        ranks = [next(r for r in self.ranks if solver.boolean_value(self.on[r][a])) for a in self.atoms]
        if len(self.case.choices) == 1:
            return bound, (ranks, [self.case.choices[0]] * len(ranks))
        return bound, (ranks, [bool(solver.boolean_value(self.again[r][a])) for a, r in enumerate(ranks)])
