"""What cannot fit is proven; what is said to fit does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.errors import InfeasibleError
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.search import least_memory
from octopipe_cli.search.least_memory import check_feasible, roomiest_assignments, serial_need_bytes, serial_orders
from octopipe_cli.simulate import simulate

from ..instances import random_instance
from .test_relaxation import flat, layered

GIB = 2**30


def heavy(**more: Any) -> Profile:
    """Return four layers of 4 GiB state, 1 GiB activation, 0.25 GiB output each."""
    kind = {"ns": (1, 1, 1), "state_bytes": 4 * GIB, "activation_bytes": GIB, "output_bytes": GIB // 4}
    return layered([{"repeat": 4, "of": ["h"]}], h={**kind, **more})


def test_the_least_a_rank_needs_is_named() -> None:
    """Two layers a rank: 8 + 2 GiB, the rank without the last layer the gradient too; 10 GiB is what is proven."""
    with pytest.raises(InfeasibleError, match=r"rank 0 would need at least 10\.\d GiB of its 9\.0 GiB") as caught:
        check_feasible(heavy(), flat(2, 9), Request(num_microbatches=2, recompute="none"))
    assert caught.value.exit_code == 3
    assert "--recompute auto" in str(caught.value)
    check_feasible(heavy(), flat(2, 10.25), Request(num_microbatches=2, recompute="none"))


def test_recomputation_makes_it_fit() -> None:
    """Recomputed, a rank keeps 0.5 GiB of inputs (rank 0 0.25), 1 GiB transient, and rank 0 the gradient."""
    check_feasible(heavy(), flat(2, 9.5), Request(num_microbatches=2))
    with pytest.raises(InfeasibleError, match="even with everything recomputed"):
        check_feasible(heavy(), flat(2, 9.4), Request(num_microbatches=2))
    found = roomiest_assignments(heavy(), flat(2, 9.5), Request(num_microbatches=2))[-1]
    assert found == Assignment((0, 2, 4), (0, 1), (True, True))


def test_fewer_layers_than_ranks() -> None:
    with pytest.raises(InfeasibleError, match="5 ranks, but the model has only 4 pieces"):
        check_feasible(heavy(), flat(5), Request(num_microbatches=2))


def test_serial_orders_need_what_is_said() -> None:
    pipeline = build_pipeline(heavy(), flat(2), Assignment((0, 1, 2, 4), (0, 1, 0), (False, False, False)), 2)
    assert serial_need_bytes(pipeline) == (12 * GIB + 3 * GIB, 4 * GIB + GIB + GIB // 4)
    assert simulate(pipeline, serial_orders(pipeline)).peak_memory_bytes == serial_need_bytes(pipeline)


def every_assignment(profile: Profile, num_ranks: int, request: Request) -> Iterator[Assignment]:
    legal = [k for k in range(1, profile.num_layers) if k - 1 not in profile.rules.no_cut_after]
    flags = {"none": (False,), "full": (True,), "auto": (False, True)}[request.recompute]
    for count in range(num_ranks, len(legal) + 2):
        for inner in combinations(legal, count - 1):
            cuts = (0, *inner, profile.num_layers)
            for ranks in product(range(num_ranks), repeat=count):
                layers = [ranks[s] for s in range(count) for _ in range(cuts[s], cuts[s + 1])]
                broken = any(len({layers[layer] for layer in group}) > 1 for group in profile.rules.same_rank)
                most = max(map(ranks.count, range(num_ranks)))
                if broken or min(map(ranks.count, range(num_ranks))) == 0 or most > (request.max_stages_per_rank or 99):
                    continue
                if request.placement == "cyclic" and ranks != tuple(s % num_ranks for s in range(count)):
                    continue
                yield from (Assignment(cuts, ranks, chosen) for chosen in product(flags, repeat=count))


def fits(profile: Profile, cluster: Cluster, assignment: Assignment) -> bool:
    pipeline = build_pipeline(profile, cluster, assignment, 2)
    return simulate(pipeline, serial_orders(pipeline)).fits


def tight_instance(seed: int) -> tuple[Profile, Cluster, Request]:
    """Return a tiny instance whose limits are below what some plan of it needs."""
    rng = Random(seed)
    instance = random_instance(rng)
    while instance.assignment.cuts[-1] > 5 or max(instance.assignment.ranks) > 2:
        instance = random_instance(rng)
    for group in instance.cluster["ranks"]:
        if group["memory_gib"] is not None:
            reserved = group.get("reserved_gib", 0)
            group["memory_gib"] = reserved + (group["memory_gib"] - reserved) * rng.uniform(0.2, 1)
    request = Request(
        num_microbatches=2,
        recompute=rng.choice(("none", "auto", "full")),
        placement=rng.choice(("free", "free", "cyclic")),
        max_stages_per_rank=rng.choice((None, None, 1, 2)),
    )
    profile = profile_from_document(instance.profile, "profile")
    return profile, cluster_from_document(instance.cluster, "cluster"), request


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_against_every_assignment(seed: int) -> None:
    profile, cluster, request = tight_instance(seed)
    every = list(every_assignment(profile, cluster.num_ranks, request))
    possible = any(fits(profile, cluster, assignment) for assignment in every)
    try:
        check_feasible(profile, cluster, request)
    except InfeasibleError:
        assert not possible
        return
    found = roomiest_assignments(profile, cluster, request)
    allowed = set(every)
    assert set(found) <= allowed
    assert any(fits(profile, cluster, assignment) for assignment in found) == possible


@pytest.mark.parametrize(
    ("need", "limit", "words"),
    [
        (10 * 2**30, 9 * 2**30, "10.0 GiB of its 9.0 GiB"),
        (80 * 2**30 + 2**25, 80 * 2**30, "80.03 GiB of its 80.00 GiB"),
        (80 * 2**30 + 1, 80 * 2**30, "85899345921 bytes of its 85899345920 bytes"),
        (1117, 1116, "1117 bytes of its 1116 bytes"),
    ],
)
def test_a_lack_is_told_in_figures_that_differ(need: int, limit: int, words: str) -> None:
    assert least_memory._amounts(need, limit) == words


def test_as_many_pieces_as_ranks_leave_one_stage_a_rank_under_any_placement() -> None:
    """Layers of 4 and 1 GiB of state on ranks of 2 and 5 GiB: only free placement can swap them."""
    times = {"gpu": {"forward_ms": 1, "backward_input_ms": 1, "backward_weight_ms": 1}}
    kinds = {name: {"state_bytes": size, "times": times} for name, size in (("big", 4 * GIB), ("small", GIB))}
    document = {"schema": "octopipe.profile", "version": 1, "name": "two", "kinds": kinds, "layers": ["big", "small"]}
    ranks = [{"hardware": "gpu", "memory_gib": 2}, {"hardware": "gpu", "memory_gib": 5}]
    spec = {"schema": "octopipe.cluster", "version": 1, "name": "unequal", "ranks": ranks}
    profile, cluster = profile_from_document(document, "p"), cluster_from_document(spec, "c")
    with pytest.raises(InfeasibleError, match=r"4\.0 GiB of its 2\.0 GiB"):
        check_feasible(profile, cluster, Request(num_microbatches=2, placement="cyclic"))
    check_feasible(profile, cluster, Request(num_microbatches=2))
