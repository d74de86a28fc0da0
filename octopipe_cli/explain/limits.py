"""What keeps a step from being shorter: the rank that sets its pace, the bounds, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from octopipe_cli.bounds import BoundParts, plan_bound_ns, plan_bound_parts
from octopipe_cli.plan import BoundArgument, Plan
from octopipe_cli.simulate import Timeline

#: A rank is full whose peak leaves less than one part in so many of its limit: 5 %.
FULL_PART = 20


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The rank that waits least between its first and its last action; its times add up to the step time.

    Attributes
    ----------
    rank
        Which it is.
    before_first_ns, busy_ns, between_ns, step_ns, after_last_ns
        Its time, as `Timeline.bubbles` splits it.
    mean_ns
        The busy time and `step_ns` of all ranks, shared out evenly.
    """

    rank: int
    before_first_ns: int
    busy_ns: int
    between_ns: int
    step_ns: int
    after_last_ns: int
    mean_ns: int


def bottleneck(timeline: Timeline) -> Bottleneck:
    """Return the rank that sets the pace; of several, the busiest, then the first."""
    pipeline, busy = timeline.pipeline, timeline.busy_ns
    bubbles = [timeline.bubbles(rank) for rank in range(pipeline.num_ranks)]
    acting = [rank for rank, order in enumerate(timeline.orders) if order] or [0]
    rank = min(acting, key=lambda r: (bubbles[r].between_ns, -busy[r] - pipeline.step_ns[r], r))
    before, between, after = bubbles[rank]
    mean = (sum(busy) + sum(pipeline.step_ns)) // pipeline.num_ranks
    return Bottleneck(rank, before, busy[rank], between, pipeline.step_ns[rank], after, mean)


@dataclass(frozen=True, slots=True)
class BoundSplit:
    """The bounds, and what the gap to the certified one is made of.

    Attributes
    ----------
    certified_ns, scope, argument
        The bound the plan records, what it speaks of, and what it rests on; None where the plan does not say.
    plan
        What the bound of this partition and placement is made of.
    unlimited_ns
        The bound of this partition and placement if no rank had a memory limit.
    order_ns
        The most that another order of the same partition and placement can gain.
    partition_ns
        The rest of the gap: what another partition or placement might gain, if anything; the certified bound itself
        may be out of reach.
    """

    certified_ns: int
    scope: str
    argument: BoundArgument | None
    plan: BoundParts
    unlimited_ns: int
    order_ns: int
    partition_ns: int


def bound_split(plan: Plan, timeline: Timeline) -> BoundSplit:
    """Return the bounds of a plan; the one of its partition is computed anew from the plan alone."""
    pipeline, certified = timeline.pipeline, plan.bound.step_time_ns
    parts = plan_bound_parts(pipeline)
    unlimited = plan_bound_ns(replace(pipeline, limit_bytes=(None,) * pipeline.num_ranks))
    of_this = max(parts.total_ns, certified)  # the certified bound holds for this partition too
    order_ns = max(0, timeline.step_time_ns - of_this)
    return BoundSplit(certified, plan.bound.scope, plan.bound.argument, parts, unlimited, order_ns, of_this - certified)


@dataclass(frozen=True, slots=True)
class FullRank:
    """A rank whose peak is close to its memory limit."""

    rank: int
    peak_bytes: int
    limit_bytes: int


def full_ranks(timeline: Timeline) -> list[FullRank]:
    """Return the ranks whose peak is within 5 % of their limit, the fullest first."""
    limits = timeline.pipeline.limit_bytes
    ranks = [
        FullRank(rank, peak, limit)
        for rank, (peak, limit) in enumerate(zip(timeline.peak_memory_bytes, limits, strict=True))
        if limit and (limit - peak) * FULL_PART <= limit
    ]
    return sorted(ranks, key=lambda full: (full.limit_bytes - full.peak_bytes, full.rank))
