"""A timeline taken apart for polishing: what waits for what, and how much must follow every action.

All times here are in ticks, the largest unit that every time of the pipeline is a multiple of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Final

from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Action, Objective, Orders
from octopipe_cli.simulate import Timeline

#: Stands for "no path": less than any time, and still so after times are added.
NO_PATH: Final = -(1 << 61)

#: Actions of one stage and micro-batch follow one another so.
PHASES: Final = {"F": 0, "I": 1, "B": 1, "W": 2}


@dataclass(frozen=True)
class Incumbent:
    """The best timeline so far, with what the order model asks of it.

    A goal is what the objective counts: the last end of all for the step time, each rank's own last end for the span.
    """

    timeline: Timeline
    objective: Objective

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline."""
        return self.timeline.pipeline

    @cached_property
    def value(self) -> tuple[int, int]:
        """What timelines are compared by, in ns: the objective, then the other of step time and span."""
        pair = (self.timeline.step_time_ns, self.timeline.span_ns)
        return pair if self.objective == "step" else (pair[1], pair[0])

    @cached_property
    def tick_ns(self) -> int:
        """How many ns a tick is."""
        unit = math.gcd(*self.pipeline.step_ns)
        for cost in (cost for stage in range(self.pipeline.num_stages) for cost in self.pipeline.costs(stage)):
            unit = math.gcd(unit, cost.forward_transfer_ns, cost.backward_transfer_ns, *cost.action_ns.values())
        return unit or 1

    @cached_property
    def times(self) -> dict[Action, tuple[int, int]]:
        """Start and end of every action."""
        line, unit = self.timeline, self.tick_ns
        return {
            action: (start // unit, end // unit)
            for actions, starts, ends in zip(line.orders, line.start_ns, line.end_ns, strict=True)
            for action, start, end in zip(actions, starts, ends, strict=True)
        }

    @cached_property
    def sequence(self) -> list[Action]:
        """All actions by start."""
        return sorted(self.times, key=lambda action: by_time(action, *self.times[action]))

    def rank(self, action: Action) -> int:
        """Return the rank that runs an action."""
        return self.pipeline.rank_of[action.stage]

    def duration(self, action: Action) -> int:
        """Return how long an action takes."""
        return self.pipeline.duration_ns(action) // self.tick_ns

    def transfer(self, action: Action) -> int:
        """Return how long its result is on the way to the stage that waits for it."""
        cost = self.pipeline.cost(action.stage, action.microbatch)
        if action.kind == "W":
            return 0
        return (cost.forward_transfer_ns if action.kind == "F" else cost.backward_transfer_ns) // self.tick_ns

    def occupies(self, action: Action) -> int:
        """Return how long an action keeps its rank from the next: with its transfer where p2p is blocking."""
        return self.duration(action) + (self.transfer(action) if self.pipeline.p2p == "blocking" else 0)

    def step(self, rank: int) -> int:
        """Return the time after a rank's last action."""
        return self.pipeline.step_ns[rank] // self.tick_ns

    def backward(self, stage: int, microbatch: int) -> Action:
        """Return the action that gives a stage's input gradient: its B or its I."""
        whole = Action(stage, "B", microbatch)
        return whole if whole in self.times else Action(stage, "I", microbatch)

    @cached_property
    def needs(self) -> dict[Action, tuple[tuple[Action, int], ...]]:
        """For each action those it waits for besides its rank's order, each with the time from its start on."""
        return {action: tuple(self._needs(action)) for action in self.times}

    def _needs(self, action: Action) -> Iterator[tuple[Action, int]]:
        stage, kind, microbatch = action
        near, far = None, None
        if kind == "F":
            far = Action(stage - 1, "F", microbatch) if stage else None
        elif kind == "W":
            near = Action(stage, "I", microbatch)
        else:
            near = Action(stage, "F", microbatch)
            far = self.backward(stage + 1, microbatch) if stage + 1 < self.pipeline.num_stages else None
        if near is not None:
            yield near, self.duration(near)
        if far is not None:
            yield far, self.duration(far) + self.transfer(far)

    @cached_property
    def followers(self) -> dict[Action, list[tuple[Action, int]]]:
        """For each action those that wait for it, its rank's next included, each with the time from its start on."""
        after: dict[Action, list[tuple[Action, int]]] = {action: [] for action in self.times}
        for action, needs in self.needs.items():
            for need, wait in needs:
                after[need].append((action, wait))
        for actions in self.timeline.orders:
            for action, following in pairwise(actions):
                after[action].append((following, self.occupies(action)))
        return after

    @property
    def num_goals(self) -> int:
        """How many goals there are."""
        return 1 if self.objective == "step" else self.pipeline.num_ranks

    def last_tail(self, action: Action) -> list[int]:
        """Return for each goal the time to it from the start of an action that is the last on its rank."""
        rank = self.rank(action)
        tail = [NO_PATH] * self.num_goals
        tail[0 if self.objective == "step" else rank] = self.duration(action) + self.step(rank)
        return tail

    @cached_property
    def tails(self) -> dict[Action, list[int]]:
        """For each action and goal the time from the action's start to the goal by the longest path."""
        tails: dict[Action, list[int]] = {}
        last = {actions[-1] for actions in self.timeline.orders if actions}
        graph = {action: [after for after, _ in following] for action, following in self.followers.items()}
        for action in TopologicalSorter(graph).static_order():  # followers come first
            longest = self.last_tail(action) if action in last else [NO_PATH] * self.num_goals
            for after, wait in self.followers[action]:
                longest = longer(longest, tails[after], wait)
            tails[action] = longest
        return tails


def longer(paths: list[int], others: list[int], wait: int) -> list[int]:
    """Return for each goal the longer of two paths, the other one begun by a wait."""
    return [max(a, wait + b) for a, b in zip(paths, others, strict=True)]


def by_time(action: Action, start: int, end: int) -> tuple[int, int, int, int, int]:
    """Return what to sort actions by: start; among those at one instant what takes no time first, as they depend."""
    stage, kind, microbatch = action
    return start, end, PHASES[kind], stage if kind == "F" else -stage, microbatch


def ascending(orders: Orders) -> Orders:
    """Return orders in which each stage takes the micro-batches in ascending order, forward, backward and for W.

    Micro-batches are alike, so the k-th F of a stage may be called that of micro-batch k, and its k-th I or B too:
    once k of them have started, k of those before them have arrived. The k-th W goes with the k-th I.
    """
    renamed = []
    for actions in orders:
        counts: dict[tuple[int, int], int] = {}
        waiting: dict[int, list[int]] = {}  # by stage: micro-batches whose W is still to come
        row = []
        for stage, kind, _ in actions:
            if kind == "W":
                row.append(Action(stage, kind, waiting[stage].pop(0)))
                continue
            chain = (stage, PHASES[kind])
            count = counts[chain] = counts.get(chain, -1) + 1
            if kind == "I":
                waiting.setdefault(stage, []).append(count)
            row.append(Action(stage, kind, count))
        renamed.append(tuple(row))
    return tuple(renamed)
