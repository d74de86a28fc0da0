"""Why a step takes as long as it does: the bottleneck, the bound, the bubbles, what would help. Prints nothing."""

from __future__ import annotations

from dataclasses import dataclass

from octopipe_cli.explain.changes import Change, changes
from octopipe_cli.explain.graph import action_graph
from octopipe_cli.explain.limits import Bottleneck, BoundSplit, FullRank, bottleneck, bound_split, full_ranks
from octopipe_cli.explain.path import CriticalPath, critical_path
from octopipe_cli.explain.waits import Wait, waits, with_ready
from octopipe_cli.plan import Plan
from octopipe_cli.simulate import Timeline

__all__ = ["Bottleneck", "BoundSplit", "Change", "CriticalPath", "Explanation", "FullRank", "Wait", "explain"]

#: How many groups of bubbles are told.
MOST_WAITS = 4


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the step time is what it is.

    Attributes
    ----------
    step_time_ns
        What is explained.
    blocking
        Whether a rank waits for its own transfers.
    bottleneck
        The rank that sets the pace.
    bounds
        What no plan can beat, and what the gap to it is made of.
    path
        The critical path.
    waits
        The largest bubbles.
    full
        Ranks near their memory limit.
    changes
        What would help, most first.
    """

    step_time_ns: int
    blocking: bool
    bottleneck: Bottleneck
    bounds: BoundSplit
    path: CriticalPath
    waits: tuple[Wait, ...]
    full: tuple[FullRank, ...]
    changes: tuple[Change, ...]


def explain(plan: Plan, timeline: Timeline) -> Explanation:
    """Return why the step time of a plan is what it is; `timeline` is that of its orders."""
    graph = action_graph(timeline)
    path = critical_path(graph)
    largest = waits(timeline, graph, path)[:MOST_WAITS]
    return Explanation(
        timeline.step_time_ns,
        graph.blocking,
        bottleneck(timeline),
        bound_split(plan, timeline),
        path,
        tuple(with_ready(timeline, graph, wait) for wait in largest),
        tuple(full_ranks(timeline)),
        tuple(changes(timeline, path)),
    )
