"""No random plan is faster than any bound on it."""

from __future__ import annotations

from itertools import permutations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.bounds import plan_bound_ns, plan_span_bound_ns
from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.engines import engine_p2p
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.lengths import lengths_of
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Action, Request
from octopipe_cli.profile import profile_from_document
from octopipe_cli.search.engine_view import engine_request
from octopipe_cli.search.relaxation import lower_bound
from octopipe_cli.simulate import simulate

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


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_are_below_every_order_of_every_plan(seed: int) -> None:
    """All assignments of a tiny model to two ranks, all orders: none beats the relaxation, nor the bound of its own."""
    rng = Random(seed)
    profile_document, cluster_document = tiny_model(rng), tiny_cluster(rng)
    profile = profile_from_document(profile_document, "profile")
    cluster = cluster_from_document(cluster_document, "cluster")
    lists = {"text": [rng.choice((0, 0.3, 1, 2.5)) for _ in range(2)], "vision": [rng.uniform(0, 3), 1]}
    request = Request(num_microbatches=2, lengths=lists, backward="fused", objective="span", recompute="none")
    bound = lower_bound(profile, cluster, request, deterministic_time=0.2)
    least_step = least_span = 1 << 62
    lengths = lengths_of(profile, lists, 2)
    for cut, ranks in product((1, 2), ((0, 1), (1, 0))):
        assignment = Assignment((0, cut, 3), ranks, (False, False))
        pipeline = build_pipeline(profile, cluster, assignment, 2, None, lengths)
        actions = [[Action(ranks.index(rank), kind, m) for kind in "FB" for m in range(2)] for rank in range(2)]  # type: ignore[arg-type]
        steps, spans = [], []
        for orders in product(permutations(actions[0]), permutations(actions[1])):
            try:
                timeline = simulate(pipeline, orders)
            except InvalidPlanError:
                continue
            steps.append(timeline.step_time_ns)
            spans.append(timeline.span_ns)
        assert plan_bound_ns(pipeline) <= min(steps)
        assert plan_span_bound_ns(pipeline) <= min(spans)
        least_step, least_span = min(least_step, *steps), min(least_span, *spans)
    assert bound.step_time_ns <= least_step
    assert bound.span_ns is not None
    assert bound.span_ns <= least_span


def tiny_model(rng: Random) -> dict[str, Any]:
    """Return a model of three layers, each of its own kind."""
    kinds = {
        name: {
            "modality": rng.choice(("text", "vision")),
            "quadratic_share": rng.choice((0, 0.5, 1)),
            "output_bytes": rng.randint(0, 4) * 1000,
            "times": {
                "fast": {
                    "forward_ms": rng.randint(0, 5) * 1e-3,
                    "backward_input_ms": rng.randint(0, 5) * 1e-3,
                    "backward_weight_ms": rng.randint(0, 5) * 1e-3,
                    "step_ms": rng.randint(0, 2) * 1e-3,
                }
            },
        }
        for name in "abc"
    }
    return {"schema": "octopipe.profile", "version": 1, "name": "tiny", "kinds": kinds, "layers": list("abc")}


def tiny_cluster(rng: Random) -> dict[str, Any]:
    """Return two ranks, and links that take time now and then."""
    link = {"latency_us": rng.choice((0, 0.5)), "bandwidth_gb_per_s": rng.choice((None, 2))}
    ranks = [{"count": 2, "hardware": "fast", "memory_gib": None}]
    links, p2p = {"within_node": link}, rng.choice(("overlapped", "blocking"))
    cluster: dict[str, Any] = {"schema": "octopipe.cluster", "version": 1, "name": "two", "ranks": ranks}
    return cluster | {"links": links, "p2p": p2p, "action_overhead_us": rng.choice((0, 0.2))}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_no_plan_with_empty_stages_beats_the_relaxation(seed: int) -> None:
    instance = random_instance(Random(seed), empty_stages=True)
    cluster, flags = cluster_from_document(instance.cluster, "cluster"), instance.assignment.recompute
    profile = profile_from_document(instance.profile, "profile")
    stages_per_rank = len(flags) // cluster.num_ranks
    p2p = engine_p2p("megatron", stages_per_rank, cluster.p2p)
    pipeline = build_pipeline(profile, cluster, instance.assignment, instance.num_microbatches, p2p)
    timeline = simulate(pipeline, instance.orders)
    request = Request(
        num_microbatches=instance.num_microbatches,
        engine="megatron",
        recompute="full" if flags[0] else "none",
        max_stages_per_rank=stages_per_rank if seed % 2 else None,
    )
    bound = lower_bound(profile, cluster, engine_request(request), deterministic_time=0.1)
    assert bound.step_time_ns <= timeline.step_time_ns
