"""Searches that once failed: rules that overlap, links of ordinary speed, and times that cannot be reckoned with."""

from __future__ import annotations

from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.plan import Request
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.tables import build_tables

from ..instances import loaded_cluster, loaded_profile

TINY = Budget(0.05, 0.02, 0.02, 30_000, ((2, 1, 30_000),), 5_000)


def profile_of(layers: int, output_bytes: int = 0, **rules: Any) -> Any:
    times = {"a100": {"forward_ms": 1.0, "backward_input_ms": 1.0, "backward_weight_ms": 1.0}}
    kinds = {"k": {"times": times, "output_bytes": output_bytes}}
    document = {"schema": "octopipe.profile", "version": 1, "name": "p", "kinds": kinds}
    return loaded_profile({**document, "layers": [{"repeat": layers, "of": ["k"]}], "rules": rules})


def cluster_of(ranks: int, **more: Any) -> Any:
    group = {"count": ranks, "hardware": "a100", "memory_gib": None}
    return loaded_cluster({"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": [group], **more})


@pytest.mark.parametrize("groups", [[[0, 3], [3, 6]], [[0, 11], [1, 10], [2, 9]], [[0, 1], [2, 3], [1, 2]]])
def test_groups_that_share_a_rank_may_overlap_and_nest(groups: list[list[int]]) -> None:
    plan = make_plan(profile_of(12, same_rank=groups), cluster_of(3), Request(num_microbatches=5), budget=TINY)
    rank_of = [stage.rank for stage in plan.stages for _ in range(*stage.layers)]
    for group in groups:
        assert len({rank_of[layer] for layer in group}) == 1


def test_ordinary_links_are_within_range() -> None:
    links = {"within_node": {"bandwidth_gb_per_s": 25, "latency_us": 5}}
    request = Request(num_microbatches=1000)
    build_tables(profile_of(100, output_bytes=2**27).value, cluster_of(4, links=links).value, request)


def test_a_step_of_centuries_is_refused() -> None:
    links = {"within_node": {"latency_us": 1e9}}
    with pytest.raises(InputError, match="longer than can be reckoned with") as refused:
        build_tables(profile_of(100).value, cluster_of(4, links=links).value, Request(num_microbatches=100_000))
    assert "hours" in str(refused.value)
