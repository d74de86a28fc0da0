"""The exact model of a small instance in CP-SAT: partition, placement, recomputation and orders at once.

Every atom is a stage of its own here: a stage's action is those of its atoms one after the other, on one rank. Every
plan is a solution of the model, one as fast or faster; what memory boundary tensors and copies of tied weights take is
left out. So the solver's bound holds for any plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from ortools.sat.python import cp_model

from octopipe_cli.cluster import Cluster
from octopipe_cli.lengths import Lengths
from octopipe_cli.pipeline import Assignment, Pipeline, StageCost, build_pipeline
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.atoms import build_atoms

MEBIBYTE: Final = 2**20


class ExactModel:
    """Atoms on ranks, recomputed or not, and when each of their actions runs."""

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        request: Request,
        least_ns: int,
        most_ns: int,
        lengths: Lengths | None,
        alike: bool,
    ) -> None:
        self.profile, self.cluster, self.request, self.lengths = profile, cluster, request, lengths
        self.most, self.alike = most_ns, alike
        self.model = cp_model.CpModel()
        self.table = build_atoms(profile, cluster, request)
        self.atoms, self.ranks = range(self.table.num_atoms), range(cluster.num_ranks)
        self.numbers = range(request.num_microbatches)
        again = "none" if request.recompute == "auto" and not self.table.limited else request.recompute
        self.choices = {"none": (False,), "full": (True,), "auto": (False, True)}[again]
        self.total = self.model.new_int_var(least_ns, most_ns, "T")
        #: what all atoms cost on each rank, recomputed or not: overhead and transfers left to the model
        self.costs = {(r, again): self._alone(r, again) for r in self.ranks for again in self.choices}
        self._variables()

    def build(self) -> cp_model.CpModel:
        """Return the model: minimise the step time under all constraints."""
        for constraint in CONSTRAINTS:
            constraint(self)
        self.model.minimize(self.total)
        return self.model

    def _alone(self, rank: int, again: bool) -> Pipeline:
        alone = Assignment(self.table.starts, (rank,) * len(self.atoms), (again,) * len(self.atoms))
        return build_pipeline(self.profile, self.cluster, alone, self.request.num_microbatches, lengths=self.lengths)

    def _variables(self) -> None:
        model = self.model
        #: chosen[a, r, again]: atom a is on rank r, recomputed or not
        self.chosen = {
            (a, r, again): model.new_bool_var(f"x{a}_{r}_{again}")
            for a in self.atoms
            for r in self.ranks
            for again in self.choices
        }
        self.on = {
            (a, r): sum(self.chosen[a, r, again] for again in self.choices) for a in self.atoms for r in self.ranks
        }
        #: apart[a]: atoms a and a + 1 are on different ranks
        self.apart = [model.new_bool_var(f"apart{a}") for a in self.atoms[:-1]]
        #: sent[a, kind]: how long what atom a passes on takes to the next atom (F), or to the one before
        self.sent = {(a, kind): self._time(f"sent{a}{kind}") for a in self.atoms for kind in "FB"}
        #: whole[a, m]: a backward in one piece
        self.whole = {(a, m): self._whole(a, m) for a in self.atoms for m in self.numbers}
        # "B" is the whole backward, or I where it is not in one piece
        kinds = [kind for kind in "FBW" if kind != "W" or self.request.backward == "split"]
        self.start = {(a, k, m): self._time(f"{a}{k}{m}") for a in self.atoms for k in kinds for m in self.numbers}
        self.end = {key: self._time("end") for key in self.start}
        #: for each action: (atom's choice, time without launch, present) for every way to run it
        self.ways = {key: list(self._ways(*key)) for key in self.start}

    def _time(self, name: str) -> cp_model.IntVar:
        return self.model.new_int_var(0, self.most, name)

    def _cost(self, atom: int, rank: int, again: bool, microbatch: int) -> StageCost:
        return self.costs[rank, again].cost(atom, microbatch)

    def _whole(self, atom: int, microbatch: int) -> Any:
        """Return whether a backward is in one piece: 1 where it must be, 0 where nothing is gained by it."""
        if self.request.backward == "fused" or not self.costs[0, self.choices[0]].may_split(atom):
            return 1
        costs = [self._cost(atom, r, again, microbatch) for r in self.ranks for again in self.choices]
        saves = any(cost.action_ns["B"] < cost.action_ns["I"] + cost.action_ns["W"] for cost in costs)
        frees = self.table.limited and any(cost.bytes.weight for cost in costs)
        return self.model.new_bool_var(f"b{atom}_{microbatch}") if saves or frees else 0

    def _ways(self, atom: int, kind: str, microbatch: int) -> Iterator[tuple[tuple[int, int, bool], int, Any]]:
        whole = self.whole[atom, microbatch]
        for key, chosen in self.chosen.items():
            if key[0] != atom:
                continue
            times = self._cost(*key, microbatch).action_ns
            launch = self.cluster.action_overhead_ns
            if kind == "F":
                yield key, times["F"] - launch, chosen
            if kind == "W":
                yield key, times.get("W", launch) - launch, self._both(chosen, whole, False)
            if kind == "B":
                yield key, times["B"] - launch, self._both(chosen, whole, True)
                yield key, times.get("I", launch) - launch, self._both(chosen, whole, False)

    def _both(self, chosen: Any, whole: Any, wanted: bool) -> Any:
        """Return a literal: an atom is here, and its backward is whole (or is not); 0 where that cannot be."""
        if isinstance(whole, int):
            return chosen if whole == wanted else 0
        both = self.model.new_bool_var("")
        other = whole if wanted else whole.negated()
        self.model.add_bool_and(chosen, other).only_enforce_if(both)
        self.model.add_bool_or(chosen.negated(), other.negated(), both)
        return both

    # constraints, in the order of the list below

    def each_atom_is_somewhere(self) -> None:
        """An atom has one rank; a rank has an atom; atoms that must share a rank do."""
        for a in self.atoms:
            self.model.add_exactly_one(x for key, x in self.chosen.items() if key[0] == a)
        for r in self.ranks:
            self.model.add_bool_or(x for key, x in self.chosen.items() if key[1] == r)
        owner = self.table.atom_of_layer()
        for group in self.profile.rules.same_rank:
            for first, second in pairwise(sorted({owner[layer] for layer in group})):
                for r in self.ranks:
                    self.model.add(self.on[first, r] == self.on[second, r])

    def ranks_are_met_in_turn(self) -> None:
        """Ranks that are alike are numbered as the model first meets them."""
        if self.alike:
            for a in self.atoms:
                for r in self.ranks[1:]:
                    self.model.add(self.on[a, r] <= sum(self.on[b, r - 1] for b in range(a)))

    def results_arrive(self) -> None:
        """Transfers take time between different ranks."""
        for a in self.atoms[:-1]:
            size = min(self._cost(a, 0, self.choices[0], m).bytes.output for m in self.numbers)
            for r in self.ranks:
                self.model.add(self.on[a, r] - self.on[a + 1, r] <= self.apart[a])
                for other in self.ranks:
                    if r == other:
                        continue
                    here, there = self.on[a, r], self.on[a + 1, other]
                    ahead, back = (self.cluster.transfer_ns(size, *pair) for pair in ((r, other), (other, r)))
                    self.model.add(self.sent[a, "F"] >= ahead * (here + there - 1))
                    self.model.add(self.sent[a + 1, "B"] >= back * (here + there - 1))

    def actions_take_their_time(self) -> None:
        """An action lasts as long as on its rank; of a stage's atoms one counts the launch."""
        launch = self.cluster.action_overhead_ns
        for (a, kind, m), begin in self.start.items():
            length = sum(ns * present for _, ns, present in self.ways[a, kind, m])
            if launch:
                length += launch * self._launched(a, kind, m)
            self.model.add(self.end[a, kind, m] == begin + length)
            self.model.add(self.total >= self.end[a, kind, m])

    def actions_follow(self) -> None:
        """Forwards through the model, gradients back, weights after them."""
        for m in self.numbers:
            for a in self.atoms:
                self.model.add(self.start[a, "B", m] >= self.end[a, "F", m])
                if (a, "W", m) in self.start:
                    self.model.add(self.start[a, "W", m] >= self.end[a, "B", m])
            for a in self.atoms[:-1]:
                self.model.add(self.start[a + 1, "F", m] >= self.end[a, "F", m] + self.sent[a, "F"])
                self.model.add(self.start[a, "B", m] >= self.end[a + 1, "B", m] + self.sent[a + 1, "B"])

    def micro_batches_ascend(self) -> None:
        """Micro-batches that are alike can take each other's names."""
        if self.lengths is None:
            for (a, kind, m), begin in self.start.items():
                if m:
                    self.model.add(begin >= self.end[a, kind, m - 1])

    def ranks_do_one_thing_at_a_time(self) -> None:
        """No overlap; where p2p is blocking, sending keeps the rank too. A rank's optimizer steps last."""
        blocking, launch = self.cluster.p2p == "blocking", self.cluster.action_overhead_ns
        for r in self.ranks:
            intervals, work = [], []
            for (a, kind, m), ways in self.ways.items():
                for (_, rank, _), ns, present in ways:
                    if rank != r or isinstance(present, int):
                        continue
                    begin, end = self.start[a, kind, m], self.end[a, kind, m]
                    sends = blocking and kind != "W"
                    if launch or sends:
                        intervals.append(self._interval(begin, end + self.sent[a, kind] if sends else end, present))
                    else:
                        intervals.append(self.model.new_optional_fixed_size_interval_var(begin, ns, present, ""))
                    work.append(ns * present)
            self.model.add_no_overlap(intervals)
            steps = [self.table.times[self.table.class_of[r]][t].step for t in self.table.type_of]
            step = sum(ns * self.on[a, r] for a, ns in enumerate(steps))
            self.model.add(self.total >= sum(work) + step)
            if any(steps):
                for (a, _, _), end in self.end.items():
                    here = [x for key, x in self.chosen.items() if key[:2] == (a, r)]
                    for x in here:
                        self.model.add(self.total >= end + step).only_enforce_if(x)

    def memory_suffices(self) -> None:
        """What a rank holds at any time fits; bytes are counted in whole MiB, rounded down."""
        for r in self.ranks:
            limit = self.cluster.members[r].memory_limit_bytes
            if limit is None:
                continue
            held: list[tuple[Any, int]] = []
            for (a, rank, again), x in self.chosen.items():
                if rank == r:
                    held += self._held(a, rank, again, x)
            held = [(interval, size) for interval, size in held if size]
            self.model.add_cumulative([i for i, _ in held], [size for _, size in held], limit // MEBIBYTE)

    def _held(self, a: int, rank: int, again: bool, x: Any) -> Iterator[tuple[Any, int]]:
        """Yield what an atom holds, and when, in MiB."""
        state = sum(self.profile.kind_of(i).state_bytes for i in range(self.table.starts[a], self.table.starts[a + 1]))
        yield self._interval(0, self.total, x), state // MEBIBYTE
        for m in self.numbers:
            size = self._cost(a, rank, again, m).bytes
            begin, turn, done = self.start[a, "F", m], self.start[a, "B", m], self.end[a, "B", m]
            yield self._interval(begin, done, x), size.held // MEBIBYTE
            yield self._interval(begin, self.end[a, "F", m], x), size.workspace // MEBIBYTE
            yield self._interval(turn, done, x), (size.workspace + size.transient) // MEBIBYTE
            present = self._both(x, self.whole[a, m], False)
            if not isinstance(present, int):
                after = turn if again else done
                yield self._interval(after, self.end[a, "W", m], present), size.weight // MEBIBYTE

    # terms

    def _launched(self, atom: int, kind: str, microbatch: int) -> Any:
        """Return whether an atom counts its stage's launch: the first of those in a row on one rank does."""
        opens = self.apart[atom - 1] if atom else 1
        whole = self.whole[atom, microbatch]
        if kind != "W":
            return opens
        if isinstance(whole, int):
            return opens * (1 - whole)
        return self._both(opens, whole, False) if atom else 1 - whole

    def _interval(self, begin: Any, end: Any, present: Any) -> Any:
        size, stop = self.model.new_int_var(0, 2 * self.most, ""), self.model.new_int_var(0, 2 * self.most, "")
        self.model.add(stop == end).only_enforce_if(present)
        self.model.add(size == stop - begin).only_enforce_if(present)
        return self.model.new_optional_interval_var(begin, size, stop, present, "")


CONSTRAINTS: Final = (
    ExactModel.each_atom_is_somewhere,
    ExactModel.ranks_are_met_in_turn,
    ExactModel.results_arrive,
    ExactModel.actions_take_their_time,
    ExactModel.actions_follow,
    ExactModel.micro_batches_ascend,
    ExactModel.ranks_do_one_thing_at_a_time,
    ExactModel.memory_suffices,
)
