"""B in place of an I and the W right after it, where one piece costs less: launch overhead, or B measured apart."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from octopipe_cli.plan import Action
from octopipe_cli.simulate import Timeline, simulate

MOST_TRIALS = 64


def fuse_neighbours(timeline: Timeline, value: Callable[[Timeline], tuple[int, int]]) -> Timeline:
    """Return the timeline with backwards made whole where that saves time and nothing gets worse.

    An I waited for elsewhere ends later as part of a B, so each change is replayed: all at once, else stage by stage.
    """
    gains = {
        stage
        for stage, cost in enumerate(timeline.pipeline.stages)
        if "I" in cost.action_ns and cost.action_ns["B"] < cost.action_ns["I"] + cost.action_ns["W"]
    }
    best = timeline
    if not gains:
        return best
    for stages in [gains, *({stage} for stage in sorted(gains)[:MOST_TRIALS])]:
        trial = _fused(best, stages)
        if trial is None or (best.fits and not trial.fits):
            continue
        if (value(trial), sum(trial.busy_ns)) < (value(best), sum(best.busy_ns)):
            best = trial
    return best


def _fused(timeline: Timeline, stages: set[int]) -> Timeline | None:
    """Return the replay with every I of these stages that its own W follows made a B; None where there is none."""
    orders, changed = [], False
    for actions in timeline.orders:
        whole = {
            first
            for first, second in pairwise(actions)
            if first.kind == "I" and first.stage in stages and second == Action(first.stage, "W", first.microbatch)
        }
        changed = changed or bool(whole)
        gone = {Action(action.stage, "W", action.microbatch) for action in whole}
        orders.append(tuple(a._replace(kind="B") if a in whole else a for a in actions if a not in gone))
    return simulate(timeline.pipeline, tuple(orders)) if changed else None
