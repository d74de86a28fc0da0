"""No random plan is faster than any bound on it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.bounds import plan_bound_ns, plan_span_bound_ns
from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.plan import Request
from octopipe_cli.profile import profile_from_document
from octopipe_cli.search.relaxation import lower_bound

from ..instances import Instance, random_instance, timeline_of


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_no_orders_beat_the_bound_of_their_plan(seed: int) -> None:
    timeline = timeline_of(random_instance(Random(seed)))
    assert plan_bound_ns(timeline.pipeline) <= timeline.step_time_ns
    assert plan_span_bound_ns(timeline.pipeline) <= timeline.span_ns


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_no_orders_beat_the_bound_where_micro_batches_differ(seed: int) -> None:
    timeline = timeline_of(random_instance(Random(seed), lengths=True))
    assert plan_bound_ns(timeline.pipeline) <= timeline.step_time_ns
    assert plan_span_bound_ns(timeline.pipeline) <= timeline.span_ns


@pytest.mark.parametrize("lengths", [False, True])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_no_plan_beats_the_relaxation(lengths: bool, seed: int) -> None:
    rng = Random(seed)
    instance = random_instance(rng, lengths=lengths)
    timeline = timeline_of(instance)
    bound = lower_bound(
        profile_from_document(instance.profile, "profile"),
        cluster_from_document(instance.cluster, "cluster"),
        narrowest_request(rng, instance),
        deterministic_time=0.2,
    )
    assert bound.step_time_ns <= timeline.step_time_ns
    assert bound.span_ns is not None
    assert bound.span_ns <= timeline.span_ns


def narrowest_request(rng: Random, instance: Instance) -> Request:
    """Return a request that still allows the instance's plan, now and then no wider than that."""
    options: dict[str, Any] = {}
    flags, ranks = instance.assignment.recompute, instance.assignment.ranks
    if all(flags) or not any(flags):
        options["recompute"] = "full" if flags[0] else "none"
    if not any(action.kind in "IW" for actions in instance.orders for action in actions):
        options["backward"] = "fused"
    if ranks == tuple(s % (max(ranks) + 1) for s in range(len(ranks))):
        options["placement"] = "cyclic"
    if rng.random() < 0.7:
        options["max_stages_per_rank"] = max(ranks.count(rank) for rank in ranks)
    number, lengths = instance.num_microbatches, instance.lengths
    return Request(num_microbatches=number, lengths=lengths, objective="span", **options)
