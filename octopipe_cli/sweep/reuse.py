"""Whether a plan made at one point of a sweep holds at another."""

from __future__ import annotations

from collections import Counter

from octopipe_cli.cluster import Cluster
from octopipe_cli.pipeline import assignment_of, build_pipeline
from octopipe_cli.plan import Plan, Request, parse_orders
from octopipe_cli.profile import Profile
from octopipe_cli.simulate import simulate


def step_time_there(plan: Plan, profile: Profile, cluster: Cluster, request: Request) -> int | None:
    """Return the step time in ns of a plan's orders on a point's inputs; None where they do not hold there."""
    most = request.max_stages_per_rank
    if most is not None and max(Counter(stage.rank for stage in plan.stages).values()) > most:
        return None
    pipeline = build_pipeline(profile, cluster, assignment_of(plan), request.num_microbatches, plan.p2p)
    timeline = simulate(pipeline, parse_orders(plan.orders))
    return timeline.step_time_ns if timeline.fits else None
