from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.cluster_shorthand import EXAMPLES, cluster_document, looks_like, parse
from octopipe_cli.errors import InputError


def document(text: str, devices_per_rank: int | None = None) -> dict[str, Any]:
    found = cluster_document(parse(text), devices_per_rank)
    cluster_from_document(found, text)
    return found


def nodes(text: str) -> list[tuple[str, int, int]]:
    return [(group["hardware"], group["count"], group["node"]) for group in document(text)["ranks"]]


def test_eight_devices_are_a_cluster_of_the_hardware_file_s_figures() -> None:
    found = document("8xh100-sxm")
    del found["provenance"]
    assert found == {
        "schema": "octopipe.cluster",
        "version": 1,
        "name": "8xh100-sxm",
        "ranks": [{"count": 8, "hardware": "h100-sxm", "memory_gib": 80, "reserved_gib": 4, "node": 0}],
        "links": {"within_node": {"bandwidth_gb_per_s": 450, "latency_us": 10}},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x(4xa100-80gb)@25GB/s", [("a100-80gb", 4, 0), ("a100-80gb", 4, 1)]),
        ("4xa100-40gb+4xh100-sxm", [("a100-40gb", 4, 0), ("h100-sxm", 4, 1)]),
        ("20xh100-sxm", [("h100-sxm", 8, 0), ("h100-sxm", 8, 1), ("h100-sxm", 4, 2)]),
        ("16xh100-sxm/4", [("h100-sxm", 2, 0), ("h100-sxm", 2, 1)]),
        ("4x(8xh100-sxm)/16", [("h100-sxm", 1, 0), ("h100-sxm", 1, 2)]),
        ("(2xl40s + 2xa100-40gb)", [("l40s", 2, 0), ("a100-40gb", 2, 0)]),
        ("8xh100-sxm:times=a100", [("a100", 8, 0)]),
    ],
)
def test_devices_fill_nodes_and_ranks_take_them_in_order(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert nodes(text) == expected


def test_rates_between_nodes_are_bytes_or_bits_a_second() -> None:
    for text in ("2x(4xh100-sxm)@50GB/s", "2x(4xh100-sxm)@400Gb/s", "16xh100-sxm"):
        assert document(text)["links"]["between_nodes"]["bandwidth_gb_per_s"] == 50


def test_the_slower_link_counts_between_nodes_and_each_node_has_its_own_inside() -> None:
    links = document("2xa100-40gb+2xh100-sxm")["links"]
    assert links["between_nodes"]["bandwidth_gb_per_s"] == 25
    assert links["within_node"]["bandwidth_gb_per_s"] == 300
    fast = {"bandwidth_gb_per_s": 450, "latency_us": 10}
    assert links["pairs"] == [{"from": 2, "to": 3, **fast}, {"from": 3, "to": 2, **fast}]


def test_options_replace_what_the_hardware_file_says() -> None:
    found = document("2xl40s:memory=40:reserved=0:speed=0.5:link=20")
    assert found["ranks"] == [{"count": 2, "hardware": "l40s", "memory_gib": 40, "speed": 0.5, "node": 0}]
    assert found["links"]["within_node"]["bandwidth_gb_per_s"] == 20
    assert document("2xl40s:memory=unlimited")["ranks"][0]["memory_gib"] is None


def test_the_devices_of_a_rank_are_part_of_the_name_however_they_are_given() -> None:
    assert document("8xh100-sxm", 4) == document("8xh100-sxm/4")
    assert document("8xh100-sxm/2", 4)["name"] == "8xh100-sxm/4"
    assert document("8xh100-sxm/1") == document("8 x h100-sxm") == document("8xh100-sxm")


@pytest.mark.parametrize(
    ("text", "message", "path"),
    [
        ("8h100", "no x behind the number of devices", "character 2"),
        ("8xh100", 'no hardware "h100"', "character 3"),
        ("4xl40s+8xh200", 'no hardware "h200"', "character 10"),
        ("2x4xl40s", "nodes and their devices without parentheses", "character 3"),
        ("8xl40s:mem=3", 'no option "mem"', "character 8"),
        ("8xl40s:memory=3:memory=4", 'the option "memory" stands twice', "character 17"),
        ("8xl40s:memory", 'the option "memory" has no value', "character 14"),
        ("2x(4xl40s", "a parenthesis that is not closed", "character 10"),
        ("2x(4xl40s@25GB/s)", "something else inside a node", "character 10"),
        ("2x(4xl40s)@25", "not a cluster in a line", "character 14"),
        ("2x(4xl40s)@0GB/s", "no rate", "character 17"),
        ("2x(4xl40s)@25GB/s+4xl40s", "the rate between nodes stands once, behind all nodes", "character 18"),
        ("8xl40s@25GB/s", "a rate between nodes, and there is one node", "character 7"),
        ("8xl40s)", "something else stands behind the cluster", "character 7"),
        ("0xl40s", "not a number that can stand here", "character 1"),
        ("8xl40s/0", "not a number that can stand here", "character 8"),
        ("8xl40s/3", "the devices cannot be shared out to ranks", None),
        ("6xl40s+6xl40s/4", "rank 1 would be cut by the edge of a node", None),
        ("6xl40s+6xh100-sxm/4", "rank 1 would have devices of different kinds", None),
        ("9xl40s:memory=2:" + "x" * 200, "too long for a cluster in a line", None),
        ("60000x(60000xl40s)", "too many devices", None),
        ("8192xl40s", "too many ranks", None),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, message: str, path: str | None) -> None:
    with pytest.raises(InputError) as caught:
        document(text)
    assert (caught.value.message, caught.value.path) == (message, path)


@given(st.text("0123456789x()+@/:=.GBbs lmh40emory-", max_size=40) | st.text(max_size=40))
def test_any_text_is_a_cluster_or_an_error_for_users(text: str) -> None:
    with contextlib.suppress(InputError):
        document(text)


def test_examples_of_the_documentation_are_clusters() -> None:
    for text in EXAMPLES:
        assert looks_like(text)
        document(text)


@pytest.mark.parametrize("text", ["a100-4", "cluster.json", "2x4.json", "8.json", "clusters/8xh100", "-", ""])
def test_files_and_names_are_not_taken_for_a_cluster_in_a_line(text: str) -> None:
    assert not looks_like(text)
