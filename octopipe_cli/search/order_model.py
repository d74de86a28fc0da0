"""The CP-SAT model of orders: when the actions of a window run. A window of all actions is the whole problem.

Times are the incumbent's ticks.
"""

from __future__ import annotations

from typing import Any, Final

from ortools.sat.python import cp_model

from octopipe_cli.plan import Action, Orders
from octopipe_cli.search.incumbent import PHASES, Incumbent, by_time
from octopipe_cli.search.window import Window


class OrderModel:
    """Orders that bring the objective below the incumbent's: those of a window change.

    Parameters
    ----------
    least_ns
        A bound on the objective.
    reserve_bytes
        For each rank, memory to leave alone.
    """

    def __init__(self, incumbent: Incumbent, window: Window, least_ns: int, reserve_bytes: list[int]) -> None:
        self.incumbent = incumbent
        self.pipeline = incumbent.pipeline
        self.window = window
        self.reserve_bytes = reserve_bytes
        self.target = incumbent.value[0] // incumbent.tick_ns - 1
        self.least = max(-(-least_ns // incumbent.tick_ns), window.least())
        self.free_of: list[list[Action]] = [[] for _ in range(self.pipeline.num_ranks)]
        for action in window.free:
            self.free_of[incumbent.rank(action)].append(action)
        self.model = cp_model.CpModel()

    @property
    def hopeless(self) -> bool:
        """Whether no order of the window can do it, by the bounds alone."""
        return self.least > self.target

    def build(self) -> cp_model.CpModel:
        """Return the model: minimise the objective under all constraints."""
        self._variables()
        for constraint in CONSTRAINTS:
            constraint(self)
        self.model.minimize(self.total)
        return self.model

    def orders(self, solver: cp_model.CpSolver) -> Orders:
        """Return the incumbent's orders with the window's as the solver has them."""
        starts = {action: solver.value(variable) for action, variable in self.start.items()}
        before, after = self.window.before, self.window.after
        orders = []
        for actions, free in zip(self.incumbent.timeline.orders, self.free_of, strict=True):
            # Not by what it occupies: a W of no time may stand where an I of no time still sends.
            moved = sorted(free, key=lambda a: by_time(a, starts[a], starts[a] + self.incumbent.duration(a)))
            orders.append((*(a for a in actions if a in before), *moved, *(a for a in actions if a in after)))
        return tuple(orders)

    def _variables(self) -> None:
        window, incumbent = self.window, self.incumbent
        horizon = (incumbent.timeline.step_time_ns + incumbent.value[0]) // incumbent.tick_ns
        begins = [at if free is None else horizon for at, free in zip(window.first_at, window.first_free, strict=True)]
        self.total = self.model.new_int_var(self.least, self.target, "T")
        #: start[a]: when a free action starts
        self.start: dict[Action, Any] = {}
        self.latest: dict[Action, int] = {}
        #: literals[a, b]: whether a comes before b, of the same rank; made where they are asked for
        self.literals: dict[tuple[Action, Action], Any] = {}
        for action, earliest in window.earliest.items():
            latest = min(self.target + at - tail for at, tail in zip(begins, window.tail[action], strict=True))
            self.latest[action] = max(min(latest, horizon), earliest)
            self.start[action] = self.model.new_int_var(earliest, self.latest[action], str(action))
            self.model.add_hint(self.start[action], incumbent.times[action][0])

    # constraints, in the order of the list below

    def results_arrive(self) -> None:
        """An action starts once what it needs has arrived."""
        for action in self.start:
            for need, wait in self.incumbent.needs[action]:
                if need in self.start:
                    self.model.add(self.start[action] >= self.start[need] + wait)

    def ranks_do_one_thing_at_a_time(self) -> None:
        """A rank is busy with an action, and with its transfer where p2p is blocking."""
        for actions in self.free_of:
            self.model.add_no_overlap(
                self.model.new_fixed_size_interval_var(self.start[action], self.incumbent.occupies(action), "")
                for action in actions
            )

    def microbatches_ascend(self) -> None:
        """Each stage takes micro-batches, which are alike, in order: forward, backward, for the weights (symmetry)."""
        latest: dict[tuple[int, int], Action] = {}
        for action in sorted(self.start, key=lambda action: action.microbatch):
            chain = (action.stage, PHASES[action.kind])
            if chain in latest:
                previous = latest[chain]
                self.model.add(self.start[action] >= self.start[previous] + self.incumbent.occupies(previous))
            latest[chain] = action

    def first_actions_wait_for_nothing_else(self) -> None:
        """A rank's first action starts as its input arrives (the span counts from there)."""
        for actions in self.incumbent.timeline.orders:
            for first in actions[:1]:
                if first in self.start:
                    needs = [(need, wait) for need, wait in self.incumbent.needs[first] if need in self.start]
                    arrival = self.start[needs[0][0]] + needs[0][1] if needs else self.window.earliest[first]
                    self.model.add(self.start[first] == arrival)

    def objective_counts_every_path(self) -> None:
        """The objective is no less than any path through the window, or past it, to a goal."""
        for goal, first in enumerate(self.window.first_free):
            begin = self.window.first_at[goal] if first is None else self.start[first]
            for action in self.start:
                tail = self.window.tail[action][goal]
                if tail >= 0:
                    self.model.add(self.total >= self.start[action] + tail - begin)
            if first is not None and self.window.past[goal] >= 0:
                self.model.add(self.total >= self.window.past[goal] - begin)

    def memory_suffices(self) -> None:
        """What the actions before an action left fits beside what it needs itself.

        Boundary tensors are left out: when they arrive is up to other ranks.
        """
        for rank, limit in enumerate(self.pipeline.limit_bytes):
            if limit is None:
                continue
            room = limit - self.pipeline.state_bytes(rank) - self.reserve_bytes[rank]
            room -= sum(self._change(action)[0] for action in self.window.before if self.incumbent.rank(action) == rank)
            actions = self.free_of[rank]
            changes = {action: self._change(action) for action in actions}
            if (
                sum(max(net, 0) for net, _ in changes.values()) + max((p for _, p in changes.values()), default=0)
                <= room
            ):
                continue
            for action in actions:
                if action.kind != "W":
                    left = sum(
                        changes[other][0] * self._precedes(other, action) for other in actions if other != action
                    )
                    self.model.add(left <= room - changes[action][1])

    # terms

    def _change(self, action: Action) -> tuple[int, int]:
        """Return the bytes an action adds to what its rank holds: for good, and at the most meanwhile."""
        cost = self.pipeline.cost(action.stage, action.microbatch)
        sizes = cost.bytes
        if action.kind == "F":
            return sizes.held, sizes.held + sizes.workspace
        if action.kind == "W":
            return -sizes.weight, 0
        meanwhile = sizes.workspace + sizes.transient
        if action.kind == "B":
            return -sizes.held, meanwhile
        net = sizes.weight - sizes.held
        return net, max(net, meanwhile + (sizes.weight if cost.recompute else 0))

    def _precedes(self, first: Action, second: Action) -> Any:
        """Return whether a free action comes before another of its rank: 0, 1 or a literal."""
        known = self._known_order(first, second)
        if known is not None:
            return known
        if (second, first) in self.literals:
            return self.literals[second, first].negated()
        if (first, second) not in self.literals:
            literal = self.model.new_bool_var(f"{first} {second}")
            one, other = self.start[first], self.start[second]
            self.model.add(other >= one + self.incumbent.occupies(first)).only_enforce_if(literal)
            self.model.add(one >= other + self.incumbent.occupies(second)).only_enforce_if(literal.negated())
            self.literals[first, second] = literal
        return self.literals[first, second]

    def _known_order(self, first: Action, second: Action) -> int | None:
        """Return the order of two actions of a rank where dependencies or times leave no choice."""
        if first.stage == second.stage:
            phase, other = PHASES[first.kind], PHASES[second.kind]
            if phase == other:
                return int(first.microbatch < second.microbatch)
            if phase < other and first.microbatch <= second.microbatch:
                return 1
            if phase > other and first.microbatch >= second.microbatch:
                return 0
        earliest = self.window.earliest
        if self.latest[first] < earliest[second] + self.incumbent.occupies(second):
            return 1
        if self.latest[second] < earliest[first] + self.incumbent.occupies(first):
            return 0
        return None


CONSTRAINTS: Final = (
    OrderModel.results_arrive,
    OrderModel.ranks_do_one_thing_at_a_time,
    OrderModel.microbatches_ascend,
    OrderModel.first_actions_wait_for_nothing_else,
    OrderModel.objective_counts_every_path,
    OrderModel.memory_suffices,
)
