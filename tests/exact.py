"""The best plan of a tiny instance, searched for exactly: a stage for every layer, partition, placement, recomputation
and orders in one CP-SAT model. What it finds is replayed by the simulator, so that only its being best is its word."""

from __future__ import annotations

from typing import Any

from ortools.sat.python import cp_model

from octopipe_cli.cluster import Cluster
from octopipe_cli.pipeline import Assignment, build_pipeline, layer_times
from octopipe_cli.plan import Action, Request
from octopipe_cli.profile import Profile
from octopipe_cli.simulate import Timeline, simulate


class ExactModel:
    """Layers on ranks, recomputed or not, and when each of their actions runs; links alike, no boundary tensors."""

    def __init__(self, profile: Profile, cluster: Cluster, request: Request) -> None:
        self.profile, self.cluster, self.request = profile, cluster, request
        self.model = cp_model.CpModel()
        self.layers, self.ranks = range(profile.num_layers), range(cluster.num_ranks)
        self.numbers = range(request.num_microbatches)
        self.kinds = "FB" if request.backward == "fused" else "FIW"
        choices = {"none": (False,), "full": (True,), "auto": (False, True)}[request.recompute]
        #: chosen[l, r, again]: layer l is on rank r, recomputed or not
        self.chosen = {
            (i, r, again): self.model.new_bool_var(f"x{i}_{r}_{again}")
            for i in self.layers
            for r in self.ranks
            for again in choices
        }
        for i in self.layers:
            self.model.add_exactly_one(x for (layer, _, _), x in self.chosen.items() if layer == i)
        for r in self.ranks:
            self.model.add_bool_or(x for (_, rank, _), x in self.chosen.items() if rank == r)
        self.horizon = self._serial_ns()
        self.total = self.model.new_int_var(0, self.horizon, "T")
        self.start: dict[Any, Any] = {}
        self.end: dict[Any, Any] = {}
        self._actions()
        self._ranks()
        self._memory()
        self.model.minimize(self.total)

    def _ns(self, layer: int, rank: int, again: bool, kind: str) -> int:
        member = self.cluster.members[rank]
        times = layer_times(self.profile.kind_of(layer).times[member.hardware], member.speed)
        work = {"F": times.forward, "I": times.input, "W": times.weight, "B": times.backward}[kind]
        return work + self.cluster.action_overhead_ns + (times.forward if again and kind in "IB" else 0)

    def _serial_ns(self) -> int:
        """Return how long one action after the other takes at the most, transfers included."""
        lags = sum(self.cluster.transfer_ns(self.profile.kind_of(i).output_bytes, 0, 1) for i in self.layers)
        work = sum(
            max(self._ns(i, r, again, kind) for (layer, r, again) in self.chosen if layer == i)
            for i in self.layers
            for kind in self.kinds
        )
        return len(self.numbers) * (work + 2 * lags)

    def _apart(self, layer: int) -> Any:
        """Return whether a layer and the next one are on different ranks."""
        apart = self.model.new_bool_var(f"apart{layer}")
        for r in self.ranks:
            here, there = (
                sum(x for (i, rank, _), x in self.chosen.items() if (i, rank) == (at, r)) for at in (layer, layer + 1)
            )
            self.model.add(here - there <= apart)
        return apart

    def _actions(self) -> None:
        last = self.layers[-1]
        self.lag = [self.cluster.transfer_ns(self.profile.kind_of(i).output_bytes, 0, 1) for i in self.layers]
        self.wait = [self.lag[i] * self._apart(i) for i in self.layers[:-1]]
        self.length = {
            (i, kind): sum(self._ns(*key, kind) * x for key, x in self.chosen.items() if key[0] == i)
            for i in self.layers
            for kind in self.kinds
        }
        back = self.kinds[1]
        for m in self.numbers:
            for i in self.layers:
                for kind in self.kinds:
                    begin = self.model.new_int_var(0, self.horizon, f"{i}{kind}{m}")
                    end = self.model.new_int_var(0, self.horizon, "")
                    self.model.add(end == begin + self.length[i, kind])
                    self.start[i, kind, m], self.end[i, kind, m] = begin, end
                    self.model.add(self.total >= self.end[i, kind, m])
                    if m:
                        self.model.add(begin >= self.end[i, kind, m - 1])
                self.model.add(self.start[i, back, m] >= self.end[i, "F", m])
                if self.kinds == "FIW":
                    self.model.add(self.start[i, "W", m] >= self.end[i, "I", m])
            for i in self.layers[:-1]:
                self.model.add(self.start[i + 1, "F", m] >= self.end[i, "F", m] + self.wait[i])
                self.model.add(self.start[i, back, m] >= self.end[i + 1, back, m] + self.wait[i])
        assert last >= 0

    def _ranks(self) -> None:
        """A rank does one thing at a time; where p2p is blocking, sending keeps it too."""
        for r in self.ranks:
            intervals = []
            for (i, rank, _), x in self.chosen.items():
                if rank != r:
                    continue
                for (layer, kind, _), begin in self.start.items():
                    if layer != i:
                        continue
                    sent: Any = 0
                    if self.cluster.p2p == "blocking":
                        if kind == "F" and i < self.layers[-1]:
                            sent = self.wait[i]
                        if kind in "IB" and i:
                            sent = self.wait[i - 1]
                    size = self.length[i, kind] + sent
                    intervals.append(self._interval(begin, begin + size, x))
            self.model.add_no_overlap(intervals)

    def _interval(self, begin: Any, end: Any, present: Any) -> Any:
        size, stop = (self.model.new_int_var(0, 2 * self.horizon, "") for _ in range(2))
        self.model.add(stop == end)
        self.model.add(size == stop - begin).only_enforce_if(present)
        return self.model.new_optional_interval_var(begin, size, stop, present, "")

    def _memory(self) -> None:
        back = self.kinds[1]
        for r in self.ranks:
            limit = self.cluster.members[r].memory_limit_bytes
            if limit is None:
                continue
            intervals, demands = [], []

            def hold(begin: Any, end: Any, present: Any, size: int) -> None:
                intervals.append(self._interval(begin, end, present))  # noqa: B023
                demands.append(size >> 20)  # noqa: B023

            for (i, rank, again), x in self.chosen.items():
                if rank != r:
                    continue
                kind = self.profile.kind_of(i)
                hold(0, self.total, x, kind.state_bytes)
                for m in self.numbers:
                    f, b, done = self.start[i, "F", m], self.start[i, back, m], self.end[i, back, m]
                    kept = self.profile.kind_of(i - 1).output_bytes if again and i else 0
                    hold(f, done, x, kept if again else kind.activation_bytes)
                    hold(f, self.end[i, "F", m], x, kind.workspace_bytes)
                    hold(b, done, x, kind.workspace_bytes + (kind.activation_bytes if again else 0))
                    if self.kinds == "FIW":
                        hold(b if again else done, self.end[i, "W", m], x, kind.weight_activation_bytes)
            self.model.add_cumulative(intervals, demands, limit >> 20)

    def best(self, deterministic_time: float) -> tuple[Timeline, bool] | None:
        """Return the best plan found, as the simulator has it, and whether none is better; None where none is found."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = deterministic_time
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        where = {i: (r, again) for (i, r, again), x in self.chosen.items() if solver.boolean_value(x)}
        assignment = Assignment(
            tuple(range(len(self.layers) + 1)),
            tuple(where[i][0] for i in self.layers),
            tuple(where[i][1] for i in self.layers),
        )
        runs = {Action(*key): (solver.value(self.start[key]), solver.value(self.end[key])) for key in self.start}

        def turn(action: Action) -> tuple[Any, ...]:  # of those that take no time the first in the micro-batch's way
            return (*runs[action], "FIBW".index(action.kind), action.stage * (1 if action.kind == "F" else -1), action)

        orders = tuple(tuple(sorted((a for a in runs if where[a.stage][0] == r), key=turn)) for r in self.ranks)
        timeline = simulate(build_pipeline(self.profile, self.cluster, assignment, len(self.numbers)), orders)
        assert timeline.step_time_ns <= solver.objective_value
        return timeline, status == cp_model.OPTIMAL
