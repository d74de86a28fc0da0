"""Tables against the pipeline they abbreviate; the quick bound against schedules; what would overflow."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.errors import InputError
from octopipe_cli.lengths import request_lengths
from octopipe_cli.list_scheduler import (
    ARRIVAL,
    HELD,
    NEVER,
    NEXT,
    ROOM,
    SLOT,
    UNLIMITED,
    new_scratch,
    schedule,
    stage_costs,
)
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.search.tables import NEEDED, build_tables, new_costs, price, quick_bound, shares_ranks
from octopipe_cli.simulate import simulate

from ..instances import random_instance

SEEDS = st.integers(0, 2**32)


def drawn(rng: Random) -> tuple[Profile, Cluster, Assignment, int]:
    instance = random_instance(rng)
    profile = profile_from_document(instance.profile, "profile")
    cluster = cluster_from_document(instance.cluster, "cluster")
    return profile, cluster, instance.assignment, instance.num_microbatches


def priced(profile: Profile, cluster: Cluster, assignment: Assignment, fuse: list[bool], limited: bool) -> Any:
    """Return costs, step, memory and the verdict of `price`, its arrays larger than needed and not clean."""
    tables = build_tables(profile, cluster, Request(num_microbatches=1))
    n, ranks = assignment.num_stages, cluster.num_ranks
    costs, step = new_costs(n + 3), np.full(ranks, 77, np.int64)
    for array in costs[:5]:
        array.fill(77)
    memory = np.full((5, ranks), 77, np.int64) if limited else None
    arrays = [np.array(part, np.int64) for part in (assignment.cuts, assignment.ranks, assignment.recompute, fuse)]
    verdict = price(tables, *arrays, n, cluster.action_overhead_ns, costs, step, memory)
    return costs, step, memory, verdict


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_prices_are_those_of_the_pipeline(seed: int) -> None:
    rng = Random(seed)
    profile, cluster, assignment, _ = drawn(rng)
    n = assignment.num_stages
    fuse = [rng.random() < 0.4 for _ in range(n)]
    pipeline = build_pipeline(profile, cluster, assignment, 1)
    expected, expected_step, expected_memory = stage_costs(pipeline, tuple(fuse))
    costs, step, memory, verdict = priced(profile, cluster, assignment, fuse, expected_memory is not None)
    assert costs.rank[:n].tolist() == expected.rank.tolist()
    assert costs.fused[:n].tolist() == expected.fused.tolist()
    whole = expected.fused[:, 0] == 1
    times = costs.times[:, :n].copy()
    for row in (1, 2):  # I and W of stages that may not split do not exist; the tables have numbers there
        times[row, whole] = expected.times[row, whole]
    assert times.tolist() == expected.times.tolist()
    assert costs.lags[:, :n].tolist() == expected.lags.tolist()
    assert step.tolist() == expected_step.tolist()
    if expected_memory is None:
        assert verdict
        return
    sizes = expected.sizes.copy()
    sizes[2, whole] = 0  # B has nothing early; the tables leave it out
    assert costs.sizes[:, :n].tolist() == sizes.tolist()
    limited = expected_memory[ROOM] < UNLIMITED
    assert memory[ROOM, limited].tolist() == expected_memory[ROOM, limited].tolist()
    assert (memory[ROOM, ~limited] > UNLIMITED // 2).all()
    for row in (SLOT, ARRIVAL, NEXT) if verdict else (ARRIVAL, NEXT):  # SLOT is left unfinished where one does not fit
        assert memory[row].tolist() == expected_memory[row].tolist()
    needed = [sum(expected.sizes[HELD, s] for s in stages) for stages in pipeline.stages_of]
    assert memory[NEEDED].tolist() == needed
    slot = expected_memory[SLOT]
    assert verdict == all(memory[ROOM, d] - slot[d] >= need for d, need in enumerate(needed))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_prices_of_micro_batches_that_differ_are_those_of_the_pipeline(seed: int) -> None:
    rng = Random(seed)
    instance = random_instance(rng, lengths=True)
    profile = profile_from_document(instance.profile, "profile")
    cluster = cluster_from_document(instance.cluster, "cluster")
    request = Request(num_microbatches=instance.num_microbatches, lengths=instance.lengths)
    lengths = request_lengths(profile, request)
    if lengths is None:
        return
    m, n, given_order = instance.num_microbatches, instance.assignment.num_stages, instance.microbatch_order
    order = list(range(m)) if given_order is None else given_order
    fuse = [rng.random() < 0.4 for _ in range(n)]
    pipeline = build_pipeline(profile, cluster, instance.assignment, m, None, lengths.ordered(order))
    expected, _, _ = stage_costs(pipeline, tuple(fuse))
    costs, step = new_costs(n, m), np.zeros(cluster.num_ranks, np.int64)
    costs.apart.order[:] = order
    memory = np.zeros((5, cluster.num_ranks), np.int64)
    assignment = instance.assignment
    arrays = [np.array(part, np.int64) for part in (assignment.cuts, assignment.ranks, assignment.recompute, fuse)]
    tables = build_tables(profile, cluster, request)
    price(tables, *arrays, n, cluster.action_overhead_ns, costs, step, memory)
    whole = expected.fused[:, 0] == 1
    for row in (1, 2):
        costs.times[row, whole] = expected.times[row, whole]
    assert costs.times.tolist() == expected.times.tolist()
    assert costs.apart.lags.tolist() == expected.apart.lags.tolist()
    expected.apart.sizes[2, whole] = 0
    assert costs.apart.sizes.tolist() == expected.apart.sizes.tolist()
    assert costs.sizes.tolist() == expected.apart.sizes.max(axis=2).tolist()
    blocking, by_span = pipeline.p2p == "blocking", rng.random() < 0.5
    least = quick_bound(costs, n, m, step, by_span, np.zeros((5, cluster.num_ranks), np.int64))
    value = schedule(
        costs, n, cluster.num_ranks, m, step, None, (blocking, by_span), (rng.choice((0, 5, 10_000)), 3, 0),
        np.zeros((2, 0, 0), np.int64), new_scratch(n, cluster.num_ranks, m), NEVER, np.zeros((0, 4), np.int64),
    )  # fmt: skip
    assert least <= value < NEVER


@settings(max_examples=150, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_the_quick_bound_is_below_all_schedules(seed: int) -> None:
    rng = Random(seed)
    instance = random_instance(rng)
    profile = profile_from_document(instance.profile, "profile")
    cluster = cluster_from_document(instance.cluster, "cluster")
    pipeline = build_pipeline(profile, cluster, instance.assignment, instance.num_microbatches)
    # I and W of the drawn orders may be cheaper or dearer than B: the bound speaks of one choice for each stage.
    fuse = tuple(rng.random() < 0.5 for _ in pipeline.stages)
    costs, step, _ = stage_costs(pipeline, fuse)
    n, ranks, microbatches = pipeline.num_stages, pipeline.num_ranks, pipeline.num_microbatches
    bounds = [int(quick_bound(costs, n, microbatches, step, span, np.zeros((4, ranks), np.int64))) for span in (0, 1)]
    chosen = {a.stage: a.kind == "B" for actions in instance.orders for a in actions if a.kind in "IB"}
    kinds = {(a.stage, a.kind) for actions in instance.orders for a in actions}
    if chosen == {s: bool(costs.fused[s, 0]) for s in range(n)} and len(kinds) == n + sum(
        2 - c for c in chosen.values()
    ):
        timeline = simulate(pipeline, instance.orders)
        assert bounds[0] <= timeline.step_time_ns
        assert bounds[1] <= timeline.span_ns
    for by_span in (False, True):
        rule = (rng.choice((0, 10, 10**6)), rng.choice((0, 10, 10**7)), rng.choice((0, 10**5)))
        value = schedule(
            costs, n, ranks, microbatches, step, None, (pipeline.p2p == "blocking", by_span), rule,
            np.zeros((2, 0, 0), np.int64), new_scratch(n, ranks, microbatches), NEVER, np.zeros((0, 4), np.int64),
        )  # fmt: skip
        assert bounds[by_span] <= value


def flat_profile(**more: Any) -> Profile:
    times = {"forward_ms": 1.0, "backward_input_ms": 1.0, "backward_weight_ms": 1.0}
    kind: dict[str, Any] = {"times": {"a": {**times, **more.pop("times", {})}}, **more.pop("kind", {})}
    document = {"schema": "octopipe.profile", "version": 1, "name": "p", "kinds": {"k": kind}, "layers": ["k"] * 6}
    return profile_from_document({**document, **more}, "profile")


def flat_cluster(ranks: int = 2, **more: Any) -> Cluster:
    group = {"count": ranks, "hardware": "a", "memory_gib": None}
    return cluster_from_document(
        {"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": [group], **more}, "cluster"
    )


def test_quick_bound_by_hand() -> None:
    """Two ranks, F I W of 3 ms a stage, 4 micro-batches: rank 1 starts at 3 and works 36; rank 0 36 ms."""
    costs, step, _, _ = priced(
        flat_profile(), flat_cluster(), Assignment((0, 3, 6), (0, 1), (False,) * 2), [False] * 2, False
    )
    scratch = np.zeros((4, 2), np.int64)
    assert quick_bound(costs, 2, 4, step, False, scratch) == 39_000_000
    assert scratch[0].tolist() == [36_000_000, 39_000_000]
    assert quick_bound(costs, 2, 4, step, True, scratch) == 36_000_000
    # One micro-batch: rank 1's F, I, then stage 0's I and W, 3 ms each, after the start at 3.
    assert quick_bound(costs, 2, 1, step, False, scratch) == 15_000_000
    assert quick_bound(costs, 2, 4, np.zeros(3, np.int64), False, np.zeros((4, 3), np.int64)) == NEVER


def test_groups_on_one_rank() -> None:
    tables = build_tables(
        flat_profile(rules={"same_rank": [[0, 5], [1, 2, 3]]}), flat_cluster(), Request(num_microbatches=1)
    )

    def keeps(cuts: list[int], ranks: list[int]) -> bool:
        return bool(shares_ranks(tables, np.array(cuts), np.array(ranks), len(ranks)))

    assert keeps([0, 1, 4, 6], [0, 1, 0])
    assert keeps([0, 1, 2, 4, 6], [0, 1, 1, 0])
    assert not keeps([0, 1, 4, 6], [0, 1, 1])
    assert keeps([0, 2, 6], [1, 1])
    assert not keeps([0, 1, 3, 6], [0, 1, 0])


@pytest.mark.parametrize(
    ("profile", "cluster", "microbatches"),
    [
        ({"times": {"forward_ms": 1e8}}, {}, 1000),
        ({}, {"action_overhead_us": 1e9}, 20_000),
        ({"times": {"step_ms": 1e8}}, {}, 1000),
        ({"times": {"backward_ms": 1e8}}, {}, 1000),
    ],
)
def test_what_would_overflow_is_refused(profile: dict[str, Any], cluster: dict[str, Any], microbatches: int) -> None:
    with pytest.raises(InputError, match="longer than can be reckoned with") as caught:
        build_tables(flat_profile(**profile), flat_cluster(**cluster), Request(num_microbatches=microbatches))
    assert caught.value.exit_code == 2


def test_long_steps_that_can_be_reckoned_with() -> None:
    """A day a layer is no overflow."""
    build_tables(flat_profile(times={"forward_ms": 8.64e7}), flat_cluster(), Request(num_microbatches=100))
