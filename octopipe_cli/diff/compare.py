"""The comparison of two plans: every part of them, in a fixed order."""

from __future__ import annotations

from octopipe_cli.cluster import Cluster
from octopipe_cli.diff.change import Change
from octopipe_cli.diff.clusters import compare_clusters
from octopipe_cli.diff.engines import compare_engines
from octopipe_cli.diff.inputs import compare_inputs
from octopipe_cli.diff.layers import Alignment
from octopipe_cli.diff.memory import below_headroom, compare_memory, memory_of
from octopipe_cli.diff.orders import compare_orders
from octopipe_cli.diff.partition import compare_partition
from octopipe_cli.diff.profiles import compare_profiles
from octopipe_cli.diff.ranks import compare_ranks
from octopipe_cli.diff.request import compare_origin, compare_request, compare_rest
from octopipe_cli.diff.stages import compare_stages
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.diff.times import compare_times
from octopipe_cli.diff.validity import compare_validity, findings, invalid_plan
from octopipe_cli.plan import Plan
from octopipe_cli.profile import Profile
from octopipe_cli.words import time_text


def compare_plans(
    old: Plan,
    new: Plan,
    *,
    thresholds: Thresholds | None = None,
    old_profile: Profile | None = None,
    new_profile: Profile | None = None,
    old_cluster: Cluster | None = None,
    new_cluster: Cluster | None = None,
) -> list[Change]:
    """Return what differs from the old plan to the new one, in a fixed order; nothing for a plan and itself.

    Ids of the comparison the other way round are the `mirror`s of these. `provenance` is not looked at. Where both
    profiles or both clusters are given, what differs in them is listed too.
    """
    judge = thresholds or Thresholds()
    if old == new:
        changes = []
    else:
        both = Alignment(old, new)
        changes = [
            *compare_validity(old, new, judge),
            *compare_times(old, new, judge),
            *compare_memory(old, new, judge),
            *compare_partition(both, judge),
            *compare_stages(both, judge),
            *compare_ranks(old, new, judge),
            *compare_orders(both, judge),
            *compare_engines(old, new, judge),
            *compare_request(old, new, judge),
            *compare_inputs(old, new, judge),
        ]
    if old_profile is not None and new_profile is not None:
        changes += compare_profiles(old_profile, new_profile, judge)
    if old_cluster is not None and new_cluster is not None:
        changes += compare_clusters(old_cluster, new_cluster, judge)
    return [*changes, *compare_origin(old, new, judge), *compare_rest(old, new, judge)]


def added_plan(new: Plan, thresholds: Thresholds) -> list[Change]:
    """Return the changes of a plan that is new: that it is, and what of it would fail had there been one before."""
    message = f"a new plan: {new.inputs.profile.name} on {new.inputs.cluster.name}, "
    message += f"step time {time_text(new.predicted.step_time_ns)}"
    changes = [thresholds.change("plan-added", "$", message)]
    if found := findings(new):
        changes.append(invalid_plan(found, thresholds))
    for rank, memory in memory_of(new).items():
        if memory.headroom is not None and memory.headroom < thresholds.min_headroom_bytes:
            changes.append(below_headroom(rank, memory, None, thresholds))
    return changes


def removed_plan(old: Plan, thresholds: Thresholds) -> list[Change]:
    """Return the change of a plan that is gone."""
    message = f"the plan is gone: {old.inputs.profile.name} on {old.inputs.cluster.name}"
    return [thresholds.change("plan-removed", "$", message)]
