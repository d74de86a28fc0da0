from __future__ import annotations

from typing import Any

import pytest

from octopipe_cli.cluster import Cluster, Link, Rank, cluster_from_document, load_cluster
from octopipe_cli.errors import InputError
from tests import documents
from tests.editing import edited


def read(changes: dict[str, Any] | None = None) -> Cluster:
    return cluster_from_document(edited(documents.full_cluster(), changes or {}), "c.json")


def refused(changes: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        read(changes)
    return caught.value


def test_groups_are_written_out_in_pipeline_order() -> None:
    assert read().members == (
        Rank(0, "a", 76 * 2**30, 1.25, 0),
        Rank(1, "a", 76 * 2**30, 1.25, 0),
        Rank(2, "b", None, 1.0, 1),
    )


def test_a_memory_limit_is_rounded_down_to_bytes() -> None:
    cluster = read({"ranks.0.memory_gib": 58.1, "ranks.0.reserved_gib": 0.3})
    assert cluster.members[0].memory_limit_bytes == 62062277427  # floor of 57.8 * 2^30 = ...427.2
    assert cluster.num_ranks == 3


def test_the_overhead_is_rounded_to_the_nearest_ns_halves_to_even() -> None:
    assert read({"action_overhead_us": 3.0004}).action_overhead_ns == 3000
    assert read({"action_overhead_us": 0.0005}).action_overhead_ns == 0
    assert read({"action_overhead_us": 0.0015}).action_overhead_ns == 2


def test_links_are_of_the_node_between_nodes_or_of_the_pair() -> None:
    cluster = read()
    assert cluster.transfer_ns(1000, 0, 0) == 0
    assert cluster.transfer_ns(1000, 0, 1) == 5005  # 5 us and 1000 bytes at 200 bytes / ns
    assert cluster.transfer_ns(1000, 1, 2) == 10500  # no bandwidth term
    assert cluster.transfer_ns(1000, 0, 2) == 80  # the pair's link as a whole: no latency of the group's
    assert cluster.transfer_ns(1000, 2, 0) == 10500  # pairs are directed


def test_transfers_are_rounded_to_the_nearest_ns_halves_to_even() -> None:
    link = Link(bandwidth_gb_per_s=2.0)
    assert [link.transfer_ns(size) for size in (1, 2, 3, 5)] == [0, 1, 2, 2]


def test_without_links_transfers_take_no_time() -> None:
    cluster = load_cluster(str(documents.CLUSTER)).value
    assert cluster.transfer_ns(10**12, 0, 1) == 0
    assert (cluster.p2p, cluster.action_overhead_ns, cluster.num_ranks) == ("overlapped", 0, 2)
    assert cluster.members[1] == Rank(1, "a100", None, 1.0, 0)


@pytest.mark.parametrize(
    ("path", "value", "place", "message"),
    [
        ("ranks", [], "$.ranks", "not a value that can stand here"),
        ("ranks.0.count", 0, "$.ranks[0].count", "not a value that can stand here"),
        ("ranks.0.count", 2.5, "$.ranks[0].count", "not a value that can stand here"),
        ("ranks.0.count", 4097, "$.ranks[0].count", "not a value that can stand here"),
        ("ranks.0.count", 4096, "$.ranks", "too many ranks"),
        ("ranks.0.memory_gib", 0, "$.ranks[0].reserved_gib", "nothing is left of the memory"),
        ("ranks.0.memory_gib", 4, "$.ranks[0].reserved_gib", "nothing is left of the memory"),
        ("ranks.0.memory_gib", -1, "$.ranks[0].memory_gib", "not a value that can stand here"),
        ("ranks.0.memory_gib", "80", "$.ranks[0].memory_gib", "not a value that can stand here"),
        ("ranks.0.speed", 0, "$.ranks[0].speed", "not a value that can stand here"),
        ("ranks.0.memory", 3, "$.ranks[0].memory", 'unknown key "memory"'),
        ("ranks.1.hardware", "", "$.ranks[1].hardware", "not a value that can stand here"),
        ("ranks.1.node", -1, "$.ranks[1].node", "not a value that can stand here"),
        ("links.within_node.bandwidth_gb_per_s", 0, "$.links.within_node.bandwidth_gb_per_s", None),
        ("links.between_nodes.latency_us", -1, "$.links.between_nodes.latency_us", None),
        ("links.pairs.0.to", 3, "$.links.pairs[0].to", "no such rank"),
        ("links.pairs.0.from", 2, "$.links.pairs[0]", "a link from a rank to itself"),
        ("links.pairs.0.too", 1, "$.links.pairs[0].too", 'unknown key "too"'),
        ("p2p", "overlaped", "$.p2p", "not a value that can stand here"),
        ("action_overhead_us", -0.1, "$.action_overhead_us", "not a value that can stand here"),
    ],
)
def test_what_cannot_stand_is_refused_with_its_place(path: str, value: Any, place: str, message: str | None) -> None:
    error = refused({path: value})
    assert (error.file, error.path) == ("c.json", place)
    assert message is None or error.message == message


def test_a_pair_twice_is_refused() -> None:
    error = refused({"links.pairs": [{"from": 0, "to": 1}, {"from": 1, "to": 0}, {"from": 0, "to": 1}]})
    assert (error.path, error.message) == ("$.links.pairs[2]", "the link from 0 to 1 stands twice")


def test_the_nearest_word_is_offered() -> None:
    assert refused({"p2p": "overlaped"}).remedy == 'did you mean "overlapped"?'
    assert refused({"ranks.0.memory_gb": 3}).remedy == 'did you mean "memory_gib"?'


@pytest.mark.parametrize("name", ["a100-4", "a100-8", "a100-80gb-8", "a100-80gb-2x8"])
def test_shipped_clusters_are_read(name: str) -> None:
    cluster = load_cluster(str(documents.CLUSTERS / f"{name}.json")).value
    assert cluster.name == name
    sizes = {"a100-4": 4, "a100-8": 8, "a100-80gb-8": 8, "a100-80gb-2x8": 16}
    assert cluster.num_ranks == sizes[name]
    limits = {member.memory_limit_bytes for member in cluster.members}
    assert limits == ({76 * 2**30} if "80gb" in name else {None})
