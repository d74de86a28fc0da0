"""The critical path: the chain of actions and transfers without a gap that ends with the step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from octopipe_cli.explain.graph import ActionGraph
from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Action
from octopipe_cli.simulate import lag_ns


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of the critical path, in words one thing.

    Attributes
    ----------
    first, last
        Its first and its last action.
    ranks
        The ranks it is on, in the order of its visits; one where a rank works without a pause.
    microbatch
        The micro-batch all its actions are of; None where there are several.
    num_actions
        How many actions it has.
    start_ns, end_ns
        When its first action starts and its last one ends.
    transfer_ns
        Transfers between its actions.
    """

    first: Action
    last: Action
    ranks: tuple[int, ...]
    microbatch: int | None
    num_actions: int
    start_ns: int
    end_ns: int
    transfer_ns: int

    @property
    def length_ns(self) -> int:
        """From its first start to its last end."""
        return self.end_ns - self.start_ns

    def then(self, other: Run) -> Run:
        """Return this run and the one that follows it as one."""
        ranks = (*self.ranks, *other.ranks)
        return Run(
            self.first,
            other.last,
            tuple(rank for rank, _ in groupby(ranks)),
            self.microbatch if self.microbatch == other.microbatch else None,
            self.num_actions + other.num_actions,
            self.start_ns,
            other.end_ns,
            self.transfer_ns + other.transfer_ns + other.start_ns - self.end_ns,
        )


@dataclass(frozen=True)
class CriticalPath:
    """A longest chain: each action starts when the one before it has ended, or when its result has arrived.

    Attributes
    ----------
    graph
        What it leads through.
    numbers
        Its actions as numbers of the graph, from the start of the step on.
    last_rank, step_ns
        Where the step ends, and the time after that rank's last action.
    """

    graph: ActionGraph
    numbers: tuple[int, ...]
    last_rank: int
    step_ns: int

    @cached_property
    def work_ns(self) -> int:
        """The time of its actions."""
        return sum(self.graph.duration_ns[number] for number in self.numbers)

    @cached_property
    def transfer_ns(self) -> int:
        """The time of its transfers; with the work and `step_ns` it adds up to the step time."""
        return sum(self.lags_ns())

    def lags_ns(self) -> list[int]:
        """Return the transfer before each action; the first starts with the step."""
        graph, before = self.graph, 0
        lags = []
        for number in self.numbers:
            lags.append(graph.start_ns[number] - before)
            before = graph.end_ns[number]
        return lags

    def length_in_ns(self, pipeline: Pipeline) -> int:
        """Return how long it is in a pipeline with other times: no step of the same orders is shorter there."""
        actions = [self.graph.actions[number] for number in self.numbers]
        work = sum(pipeline.duration_ns(action) for action in actions)
        sent = sum(lag_ns(pipeline, before) for before, now in zip(actions, self.lags_ns()[1:], strict=False) if now)
        return work + sent + pipeline.step_ns[self.last_rank]

    def work_by_kind_ns(self) -> dict[str, int]:
        """Return the time of its F, I, W and B actions, those there are."""
        return {kind: total for kind in "FIWB" if (total := self._total(kind=kind))}

    def work_by_rank_ns(self) -> list[int]:
        """Return the time of its actions on each rank."""
        return [self._total(rank=rank) for rank in range(len(self.graph.last))]

    def _total(self, kind: str | None = None, rank: int | None = None) -> int:
        graph = self.graph
        return sum(
            graph.duration_ns[number]
            for number in self.numbers
            if kind in (None, graph.actions[number].kind) and rank in (None, graph.ranks[number])
        )

    def runs(self) -> list[Run]:
        """Return the path in pieces: a rank that works on, or a micro-batch that goes from rank to rank."""
        runs: list[Run] = []
        for _, numbers in groupby(self.numbers, key=lambda number: self.graph.ranks[number]):
            parts = [self._single(number) for number in numbers]
            run = joined_runs(parts)
            if runs and run.microbatch is not None and runs[-1].microbatch == run.microbatch:
                run = runs.pop().then(run)
            runs.append(run)
        return runs

    def _single(self, number: int) -> Run:
        graph = self.graph
        action = graph.actions[number]
        start, end = graph.start_ns[number], graph.end_ns[number]
        return Run(action, action, (graph.ranks[number],), action.microbatch, 1, start, end, 0)


def joined_runs(runs: Sequence[Run]) -> Run:
    """Return runs that follow one another as one."""
    whole = runs[0]
    for run in runs[1:]:
        whole = whole.then(run)
    return whole


def shortened(runs: Sequence[Run], most: int) -> list[Run]:
    """Return runs of which the longest stand alone and those between them are joined: few enough to read.

    At most 2 x `most` + 1 are left.
    """
    longest = sorted(range(len(runs)), key=lambda at: (-runs[at].length_ns, at))[:most]
    kept = set(longest)
    short: list[Run] = []
    for stands_alone, ats in groupby(range(len(runs)), key=lambda at: at in kept):
        pieces = [runs[at] for at in ats]
        short += pieces if stands_alone else [joined_runs(pieces)]
    return short


def critical_path(graph: ActionGraph) -> CriticalPath:
    """Return the critical path, from the end backwards; where two ways are as long, the one that stays on its rank."""
    ends = [graph.end_ns[last] if last >= 0 else 0 for last in graph.last]
    last_rank = max(range(len(ends)), key=lambda rank: (ends[rank] + graph.step_ns[rank], -rank))
    numbers = []
    at = graph.last[last_rank]
    while at >= 0:
        numbers.append(at)
        at = _awaited(graph, at)
    return CriticalPath(graph, tuple(reversed(numbers)), last_rank, graph.step_ns[last_rank])


def _awaited(graph: ActionGraph, number: int) -> int:
    """Return the action whose end (and transfer) is the start of this one; -1 for the first."""
    before, source, start = graph.previous[number], graph.source[number], graph.start_ns[number]
    if before >= 0 and graph.end_ns[before] + (graph.lag_ns[before] if graph.blocking else 0) == start:
        return before
    if source >= 0 and graph.end_ns[source] + graph.lag_ns[source] == start:
        return source
    assert start == 0
    return -1
