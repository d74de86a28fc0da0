"""The inputs of a sweep's points."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, digest
from octopipe_cli.plan import Request
from octopipe_cli.sweep.inputs import cluster_at, cluster_document, request_at
from octopipe_cli.sweep.quantities import BANDWIDTH, MEMORY, MICROBATCHES, RANKS, STAGES

from ..instances import loaded_cluster

GROUPS = [
    {"count": 2, "hardware": "x", "memory_gib": 80, "reserved_gib": 4},
    {"count": 2, "hardware": "x", "memory_gib": 80, "reserved_gib": 4, "node": 1},
]
PAIR = {"from": 0, "to": 3, "latency_us": 7.0}


def cluster(groups: Any = GROUPS, **more: Any) -> Loaded[Cluster]:
    return loaded_cluster({"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": groups, **more})


def test_memory_is_set_on_every_rank_and_the_reserve_stays() -> None:
    made = cluster_at(cluster(), MEMORY, Decimal("40.5"))
    assert [member.memory_limit_bytes for member in made.value.members] == [int(36.5 * 2**30)] * 4
    assert made.value.name == "c, memory 40.5"
    assert made.digest == digest(cluster_document(made.value)) != cluster().digest
    with pytest.raises(InputError, match="nothing is left of the memory"):
        cluster_at(cluster(), MEMORY, Decimal(4))


def test_bandwidth_is_that_between_nodes_or_within_the_only_one() -> None:
    made = cluster_at(cluster(links={"between_nodes": {"latency_us": 5.0}}), BANDWIDTH, Decimal("12.5")).value
    assert (made.link(0, 2).bandwidth_gb_per_s, made.link(0, 2).latency_us) == (12.5, 5.0)
    assert made.link(0, 1).bandwidth_gb_per_s is None
    alone = cluster_at(cluster(GROUPS[:1], links={"pairs": [{**PAIR, "to": 1}]}), BANDWIDTH, Decimal(200)).value
    assert alone.link(1, 0).bandwidth_gb_per_s == 200
    assert alone.link(0, 1).latency_us == 7.0


def test_the_first_ranks_of_a_cluster_whose_ranks_are_alike() -> None:
    three = cluster_at(cluster(links={"pairs": [PAIR, {**PAIR, "to": 2}]}), RANKS, Decimal(3)).value
    assert [member.node for member in three.members] == [0, 0, 1]
    assert [(pair.from_rank, pair.to_rank) for pair in three.links.pairs] == [(0, 2)]
    assert cluster_at(cluster(), RANKS, Decimal(2)).value.num_ranks == 2
    with pytest.raises(InputError, match="has not so many ranks") as caught:
        cluster_at(cluster(), RANKS, Decimal(5))
    assert caught.value.found == "4 ranks"
    with pytest.raises(InputError, match="all alike") as caught:
        cluster_at(cluster([*GROUPS, {"hardware": "x", "memory_gib": 40}]), RANKS, Decimal(2))
    assert caught.value.found is not None
    assert "rank 4" in caught.value.found


def test_requests_and_what_stays_as_it_is() -> None:
    machine, request = cluster(), Request(num_microbatches=4)
    assert request_at(request, MICROBATCHES, Decimal(8)).num_microbatches == 8
    assert request_at(request, STAGES, Decimal(2)) == Request(num_microbatches=4, max_stages_per_rank=2)
    assert request_at(request, MEMORY, Decimal(8)) is request
    assert cluster_at(machine, MICROBATCHES, Decimal(8)) is machine
