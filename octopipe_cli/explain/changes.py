"""What would help: the same orders replayed with one thing changed, and the bound on what other orders could do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from octopipe_cli.bounds import plan_bound_ns, plan_bound_parts
from octopipe_cli.explain.path import CriticalPath
from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.simulate import Timeline, lag_ns

#: What is made faster needs one part in so many less: 10 %.
PART: Final = 10
#: How many stages are named; and the largest one of the rank that the bound speaks of.
MOST_STAGES: Final = 3

What = Literal["stage", "transfers", "optimizer step", "recomputation", "micro-batch"]

#: What is changed, in which stages, and the pipeline then.
_Changed = tuple[What, tuple[int, ...], Pipeline]


@dataclass(frozen=True, slots=True)
class Change:
    """A change and what it gives.

    Attributes
    ----------
    what
        ``stage``: its actions take 10 % less; ``transfers`` take no time; the ``optimizer step`` of every rank takes
        10 % less; ``recomputation``: stages that recompute no longer do; one ``micro-batch`` more.
    stages
        The stages that change.
    step_time_ns
        The step time then, with the same orders.
    gain_ns, at_best_ns
        By how much the step is shorter with the same orders, and at the most with others of the same partition and
        placement; with one more micro-batch, for as many micro-batches as before.
    """

    what: What
    stages: tuple[int, ...]
    step_time_ns: int
    gain_ns: int
    at_best_ns: int


class _Candidate(NamedTuple):
    """A change to replay, and the least step time it can lead to: what is left of the critical path."""

    what: What
    stages: tuple[int, ...]
    pipeline: Pipeline
    least_ns: int


def changes(timeline: Timeline, path: CriticalPath) -> list[Change]:
    """Return the changes that make the step shorter, the largest gain first.

    They are the best three stages, the largest stage of the rank that the bound of this partition speaks of, the rank
    that gains most without recomputation, all ranks without it, transfers, the optimizer step and one more
    micro-batch. That one is not replayed: it is taken to cost what the busiest rank needs for one.
    """
    pipeline = timeline.pipeline
    stages = _candidates(path, (("stage", (s,), _faster_stage(pipeline, s)) for s in range(pipeline.num_stages)))
    chosen = _best(path, stages, MOST_STAGES)
    largest = stages[_largest_stage(timeline)]
    if all(candidate.stages != largest.stages for candidate, _ in chosen):
        chosen += _best(path, [largest], 1)
    chosen += _best(path, _candidates(path, _kept_on_ranks(pipeline)), 1)
    chosen += _best(path, others := _candidates(path, _for_all(pipeline)), len(others))
    found = [_change(timeline, candidate, after) for candidate, after in chosen]
    if timeline.pipeline.apart is None:  # how long would one more be?
        found.append(_one_more(timeline))
    return sorted((change for change in found if change.gain_ns > 0), key=lambda change: -change.gain_ns)


def _candidates(path: CriticalPath, changed: Iterable[_Changed]) -> list[_Candidate]:
    return [_Candidate(*each, path.length_in_ns(each[2])) for each in changed]


def _best(path: CriticalPath, candidates: Iterable[_Candidate], most: int) -> list[tuple[_Candidate, int]]:
    """Return the candidates with the least step times, and those; replayed are only those that can be among them."""
    best: list[tuple[_Candidate, int]] = []
    for candidate in sorted(candidates, key=lambda each: (each.least_ns, each.stages)):
        if len(best) == most and candidate.least_ns >= best[-1][1]:
            break
        best.append((candidate, path.graph.replayed_ns(candidate.pipeline)))
        best = sorted(best, key=lambda each: (each[1], each[0].stages))[:most]
    return best


def _change(timeline: Timeline, candidate: _Candidate, after_ns: int) -> Change:
    step_time = timeline.step_time_ns
    at_best = step_time - plan_bound_ns(candidate.pipeline)
    return Change(candidate.what, candidate.stages, after_ns, step_time - after_ns, at_best)


def _faster_stage(pipeline: Pipeline, stage: int) -> Pipeline:
    def faster(at: int, cost: StageCost) -> StageCost:
        if at != stage:
            return cost
        return replace(cost, action_ns={kind: time - time // PART for kind, time in cost.action_ns.items()})

    return pipeline.changed(faster)


def _largest_stage(timeline: Timeline) -> int:
    """Return the stage with the most work, of the rank that the bound of this partition speaks of."""
    pipeline = timeline.pipeline
    rank = plan_bound_parts(pipeline).rank
    load = dict.fromkeys(pipeline.stages_of[rank], 0)
    for action in timeline.orders[rank]:
        load[action.stage] += pipeline.duration_ns(action)
    return max(load, key=lambda stage: (load[stage], -stage))


def _for_all(pipeline: Pipeline) -> Iterator[_Changed]:
    """Yield what can be changed for all ranks together."""
    at_once = pipeline.changed(lambda _, cost: replace(cost, forward_transfer_ns=0, backward_transfer_ns=0))
    yield "transfers", (), at_once
    shorter = tuple(step - step // PART for step in pipeline.step_ns)
    yield "optimizer step", (), replace(pipeline, step_ns=shorter)
    again = _recomputed(pipeline, range(pipeline.num_stages))
    if len({pipeline.rank_of[stage] for stage in again}) > 1:
        yield _without_recomputation(pipeline, again)


def _kept_on_ranks(pipeline: Pipeline) -> Iterator[_Changed]:
    """Yield each rank without recomputation."""
    for stages in pipeline.stages_of:
        again = _recomputed(pipeline, stages)
        if again:
            yield _without_recomputation(pipeline, again)


def _recomputed(pipeline: Pipeline, stages: Iterable[int]) -> tuple[int, ...]:
    return tuple(stage for stage in stages if pipeline.stages[stage].recompute)


def _without_recomputation(pipeline: Pipeline, again: tuple[int, ...]) -> _Changed:
    kept = pipeline.changed(lambda stage, cost: _kept(cost) if stage in again else cost)
    return "recomputation", again, kept


def _kept(cost: StageCost) -> StageCost:
    """Return a stage that no longer recomputes: F is what recomputation adds to I and B."""
    times = cost.action_ns
    less = {kind: max(0, time - times["F"]) if kind in ("I", "B") else time for kind, time in times.items()}
    return replace(cost, action_ns=less)


def _one_more(timeline: Timeline) -> Change:
    pipeline, step_time = timeline.pipeline, timeline.step_time_ns
    number = pipeline.num_microbatches
    least = plan_bound_ns(replace(pipeline, num_microbatches=number + 1))
    after = max(step_time + _load_ns(timeline), least)
    gains = [step_time - time * number // (number + 1) for time in (after, least)]
    return Change("micro-batch", (), after, *gains)


def _load_ns(timeline: Timeline) -> int:
    """Return what the busiest rank needs for one micro-batch: its work and, where p2p is blocking, its transfers."""
    pipeline = timeline.pipeline
    load = list(timeline.busy_ns)
    if pipeline.p2p == "blocking":
        for rank, actions in enumerate(timeline.orders):
            load[rank] += sum(lag_ns(pipeline, action) for action in actions)
    return max(load) // pipeline.num_microbatches
