"""Measured steps beside the predicted one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.plan import Action, ActionKind
from octopipe_cli.run.job import Outcome, Span
from octopipe_cli.simulate import Timeline


@dataclass(frozen=True)
class KindError:
    """Actions of one kind: how many, and how much longer than planned they took, in ns."""

    kind: ActionKind
    count: int
    planned_ns: int
    mean_ns: int
    largest_ns: int


@dataclass(frozen=True)
class Comparison:
    """A measured step beside the predicted one.

    Attributes
    ----------
    predicted, measured
        The timelines; the measured one is that of the fastest step, from its first action on.
    step_times_ns
        Of all steps; the optimizer's time is the predicted one, it is not run.
    kinds
        How much longer actions took than planned, by kind.
    gap_ns
        Between two actions of a rank of which the second waited for nothing: the engine's own time, mean.
    """

    predicted: Timeline
    measured: Timeline
    step_times_ns: tuple[int, ...]
    kinds: tuple[KindError, ...]
    gap_ns: int

    @property
    def error(self) -> float:
        """The measured step time's distance to the predicted one, relative; 0 where neither takes time."""
        predicted = self.predicted.step_time_ns
        return (self.measured.step_time_ns - predicted) / predicted if predicted else 0.0

    @property
    def median_ns(self) -> int:
        """The median of the step times."""
        return round(median(self.step_times_ns))


def compare(predicted: Timeline, outcome: Outcome) -> Comparison:
    """Return the comparison of a run's fastest step with the predicted timeline.

    Raises
    ------
    InvalidPlanError
        Where the ranks did not run the plan's actions in its order.
    """
    runs = [measured_timeline(predicted, spans) for spans in outcome.steps]
    best = min(runs, key=lambda run: run.step_time_ns)
    return Comparison(
        predicted, best, tuple(run.step_time_ns for run in runs), _kinds(predicted, best), _gap(predicted, best)
    )


def measured_timeline(predicted: Timeline, spans: Sequence[Sequence[Span]]) -> Timeline:
    """Return what the ranks recorded in a step as a timeline that begins with the first action."""
    ran = tuple(tuple(span.action for span in rank) for rank in spans)
    if ran != predicted.orders:
        raise InvalidPlanError("the engine ran other actions than the plan has, or in another order")
    origin = min(span.start_ns for rank in spans for span in rank)
    starts = tuple(tuple(span.start_ns - origin for span in rank) for rank in spans)
    ends = tuple(tuple(span.end_ns - origin for span in rank) for rank in spans)
    return Timeline(predicted.pipeline, predicted.orders, starts, ends)


def _durations(timeline: Timeline) -> list[tuple[Action, int]]:
    return [
        (action, end - start)
        for rank, actions in enumerate(timeline.orders)
        for action, start, end in zip(actions, timeline.start_ns[rank], timeline.end_ns[rank], strict=True)
    ]


def _kinds(predicted: Timeline, measured: Timeline) -> tuple[KindError, ...]:
    pairs = list(zip(_durations(predicted), _durations(measured), strict=True))
    found = []
    kinds: tuple[ActionKind, ...] = ("F", "I", "W", "B")
    for kind in kinds:
        planned = [before for (action, before), _ in pairs if action.kind == kind]
        more = [after - before for (action, before), (_, after) in pairs if action.kind == kind]
        if more:
            largest = max(more, key=abs)
            found.append(KindError(kind, len(more), round(mean(planned)), round(mean(more)), largest))
    return tuple(found)


def _gap(predicted: Timeline, measured: Timeline) -> int:
    """Return the mean time between actions that follow one another without a bubble in the prediction."""
    gaps = [
        measured.start_ns[rank][at + 1] - measured.end_ns[rank][at]
        for rank, actions in enumerate(predicted.orders)
        for at in range(len(actions) - 1)
        if predicted.start_ns[rank][at + 1] == predicted.end_ns[rank][at]
    ]
    return round(mean(gaps)) if gaps else 0
