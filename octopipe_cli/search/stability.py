"""Fewer moved layers for a little step time: plans near the best one that stay close to an old plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.pipeline import Assignment
from octopipe_cli.search.tuner import Found, Tuner
from octopipe_cli.search.warm import (
    WarmStart,
    broken_request,
    labels_as_before,
    moved_layers,
    relabelled,
    with_run_put_back,
)

#: From how many plans within the limit runs of layers are put back.
MOST_STARTS: Final = 2
#: How often a run is put back at the most.
MOST_STEPS: Final = 24
#: How many runs are tried at once, the longest first.
MOST_TRIALS: Final = 8
#: Annealing runs from the old plan, how much more than a look at a batch each may spend, and how warm they begin.
RUNS: Final = 8
RUN_WORK: Final = 2
HEAT: Final = 0.0005


def limit_ns(best_ns: int, percent: float) -> int:
    """Return the largest time within so many per cent of the best one."""
    return best_ns + int(best_ns * Fraction(str(percent)) / 100)


class Steadier:
    """Looks for plans close to an old one.

    Parameters
    ----------
    limit
        The largest value, in ns of the objective, that a plan may have.
    work
        What one look at a batch of plans may spend (about: actions scheduled).
    interchangeable
        Whether ranks are alike, so that their numbers may be swapped to those of the old plan.
    """

    def __init__(self, tuner: Tuner, warm: WarmStart, limit: int, work: int, interchangeable: bool) -> None:
        self.tuner = tuner
        self.warm = warm
        self.before = warm.rank_of_layer
        self.limit = limit
        self.work = work
        self.interchangeable = interchangeable

    def plans(self, found: Sequence[Found]) -> list[Found]:
        """Return plans within the limit, those that move fewest layers first.

        Three sources: what the search found anyway; annealing from the old plan, which ends as soon as it is within
        the limit; and from the steadiest of those, runs of moved layers put back one by one while the limit is kept.
        """
        begun = self.tuner.first_look([self.warm.assignment], [self.warm.fused], self.work)
        if begun[0].value > self.limit:
            begun = [entry for entry in begun if entry.value < NEVER]
            begun = self.tuner.round(begun, RUNS, self.work * RUN_WORK * RUNS, HEAT, self.limit)
        within = sorted((entry for entry in (*found, *begun) if entry.value <= self.limit), key=self.steadiness)
        within += [self._put_back(entry) for entry in within[:MOST_STARTS]]
        return sorted(within, key=self.steadiness)

    def labelled(self, assignment: Assignment) -> Assignment:
        """Return an assignment with the old plan's numbers of ranks, where these are interchangeable."""
        if not self.interchangeable:
            return assignment
        return relabelled(assignment, labels_as_before(assignment, self.before, self.tuner.num_ranks))

    def steadiness(self, entry: Found) -> tuple[int, int]:
        """Return what plans within the limit are compared by: layers moved, then the value."""
        return moved_layers(self.labelled(entry.assignment), self.before), entry.value

    def _put_back(self, entry: Found) -> Found:
        """Return the entry with runs of layers put back where they were, as long as it stays within the limit."""
        for _ in range(MOST_STEPS):
            trials = self._trials(entry)
            fitting: list[Found] = []
            if trials and not self.tuner.watch.over():
                looked = self.tuner.first_look(
                    [trial.assignment for trial in trials], [trial.fused for trial in trials], self.work, entry.rule
                )
                fitting = [trial for trial in looked if trial.value <= self.limit]
            if not fitting:
                break
            entry = min(fitting, key=self.steadiness)
        return entry

    def _trials(self, entry: Found) -> list[Found]:
        """Return the entry with one run put back, for each whose own bound is within the limit."""
        here = self.labelled(entry.assignment)
        whole = [mark for stage, mark in enumerate(entry.fused) for _ in here.layers(stage)]
        trials = []
        for made in with_run_put_back(here, self.warm.assignment):
            trial = Found(NEVER, made, tuple(whole[first] for first in made.cuts[:-1]), entry.rule)
            if set(made.ranks) != set(range(self.tuner.num_ranks)):
                continue
            if broken_request(made, self.tuner.num_ranks, self.tuner.request) is None:
                trials.append((self.tuner.plan_bound(trial), self.steadiness(trial), trial))
        trials.sort(key=lambda item: item[1])
        return [trial for least, _, trial in trials if least <= self.limit][:MOST_TRIALS]
