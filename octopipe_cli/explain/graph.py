"""The actions of a timeline as a graph, in an order in which each follows those it waits for: quick to replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Action, Orders
from octopipe_cli.simulate import Timeline, dependencies, lag_ns


@dataclass(frozen=True)
class ActionGraph:
    """A timeline's actions, numbered so that each comes after those it waits for.

    Attributes
    ----------
    actions, ranks, start_ns, end_ns, duration_ns
        Of each action: what it is, where and when it runs, how long it takes.
    lag_ns
        The transfer of each action's result; where p2p is blocking, its rank waits for it too.
    previous, source
        Numbers of the actions each one waits for: the one before it on its rank, and the one whose result arrives from
        the neighbouring stage; -1 where there is none. What it needs of its own stage came earlier on its rank.
    last
        For each rank, the number of its last action; -1 where it never acts.
    step_ns
        For each rank, the time after its last action.
    blocking
        Whether p2p is blocking.
    """

    actions: tuple[Action, ...]
    ranks: tuple[int, ...]
    start_ns: tuple[int, ...]
    end_ns: tuple[int, ...]
    duration_ns: tuple[int, ...]
    lag_ns: tuple[int, ...]
    previous: tuple[int, ...]
    source: tuple[int, ...]
    last: tuple[int, ...]
    step_ns: tuple[int, ...]
    blocking: bool

    @cached_property
    def number_of(self) -> dict[Action, int]:
        """The number of each action."""
        return {action: number for number, action in enumerate(self.actions)}

    def replayed_ns(self, pipeline: Pipeline) -> int:
        """Return the step time of the same orders in a pipeline with other times."""
        duration = [pipeline.duration_ns(action) for action in self.actions]
        lag = [lag_ns(pipeline, action) for action in self.actions]
        end = [0] * len(self.actions)
        for number, before in enumerate(self.previous):
            begin = 0
            if before >= 0:
                begin = end[before] + lag[before] if self.blocking else end[before]
            source = self.source[number]
            if source >= 0:
                begin = max(begin, end[source] + lag[source])
            end[number] = begin + duration[number]
        ends = (end[last] if last >= 0 else 0 for last in self.last)
        return max(ended + step for ended, step in zip(ends, pipeline.step_ns, strict=True))


def action_graph(timeline: Timeline) -> ActionGraph:
    """Return the graph of a timeline's actions."""
    pipeline, orders = timeline.pipeline, timeline.orders
    wanted = dependencies(pipeline, orders)
    number: dict[Action, int] = {}
    previous, source, ranks = [], [], []
    last = [-1] * len(orders)
    at = [0] * len(orders)
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(orders):
            while at[rank] < len(actions):
                action = actions[at[rank]]
                needs = wanted[action]
                if any(need not in number for need in needs):
                    break
                previous.append(last[rank])
                source.append(next((number[need] for need in needs if need.stage != action.stage), -1))
                ranks.append(rank)
                last[rank] = number[action] = len(number)
                at[rank] += 1
                moved = True
    start, end = _times(orders, timeline.start_ns), _times(orders, timeline.end_ns)
    return ActionGraph(
        actions=tuple(number),
        ranks=tuple(ranks),
        start_ns=tuple(start[action] for action in number),
        end_ns=tuple(end[action] for action in number),
        duration_ns=tuple(end[action] - start[action] for action in number),
        lag_ns=tuple(lag_ns(pipeline, action) for action in number),
        previous=tuple(previous),
        source=tuple(source),
        last=tuple(last),
        step_ns=pipeline.step_ns,
        blocking=pipeline.p2p == "blocking",
    )


def _times(orders: Orders, times_ns: Sequence[Sequence[int]]) -> dict[Action, int]:
    """Return the time of each action from the times of each rank."""
    return {
        action: time
        for actions, times in zip(orders, times_ns, strict=True)
        for action, time in zip(actions, times, strict=True)
    }
