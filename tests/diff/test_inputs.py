"""What changed in the profiles and clusters themselves."""

from __future__ import annotations

from typing import Any

import pytest

from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.diff.clusters import compare_clusters
from octopipe_cli.diff.compare import compare_plans
from octopipe_cli.diff.kinds import KINDS
from octopipe_cli.diff.profiles import compare_profiles
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.profile import profile_from_document
from tests.diff.plans import GIB, LAYERS, cluster, plan, profile
from tests.editing import REMOVED

FASTER = {"forward_ms": 1, "backward_input_ms": 1, "backward_weight_ms": 1}
PROFILES: list[tuple[dict[str, Any], str, str]] = [
    (
        profile(kinds__head__times__a100__forward_ms=7.6),
        "kind-slower",
        "a layer of kind head takes 16.6 ms on a100 instead of 14 ms (+18.6 %)",
    ),
    (
        profile(kinds__head__times__a100__backward_ms=6),
        "kind-faster",
        "a layer of kind head takes 11 ms on a100 instead of 14 ms (-21.4 %)",
    ),
    (
        profile(kinds__mlp__times__a100__forward_ms=2, kinds__mlp__times__a100__backward_input_ms=4),
        "kind-times-shifted",
        "the kind mlp takes as long as before on a100, its passes do not",
    ),
    (
        profile(kinds__mlp__state_bytes=2 * GIB),
        "kind-sizes-changed",
        "the kind mlp has other sizes: state_bytes 1.000 GiB to 2.000 GiB (+100.0 %)",
    ),
    (
        profile(kinds__mlp__splittable=False),
        "kind-traits-changed",
        "the kind mlp: splittable false instead of true",
    ),
    (profile(kinds__mtp={"times": {"a100": FASTER}}), "kind-added", "the kind mtp is new in the profile"),
    (profile(kinds__mlp__times__h100=FASTER), "hardware-added", "the kind mlp has times on h100"),
    (profile(LAYERS[:-1]), "profile-layers-changed", "the profile lists 9 layers instead of 10"),
    (
        profile(rules={"tied": [[0, 9]]}),
        "profile-rules-changed",
        "the rules for layers of the profile changed: tied: [[0, 9]] instead of []",
    ),
    (
        profile(training={"sequence_length": 8192}),
        "profile-training-changed",
        "the training run of the profile changed: sequence_length: 8192 instead of null",
    ),
]
CLUSTERS: list[tuple[dict[str, Any], str, str]] = [
    (cluster(ranks__1__speed=0.5), "cluster-ranks-changed", "rank 1: speed 0.5 instead of 1.0"),
    (cluster(ranks__0__memory_gib=8), "cluster-ranks-changed", "rank 0: memory_gib 8.0 instead of 16.0"),
    (cluster(3), "cluster-ranks-changed", "3 ranks instead of 2"),
    (
        cluster(links={"within_node": {"latency_us": 5}}),
        "cluster-links-changed",
        "links within a node: latency_us 5.0 instead of 0.0",
    ),
    (
        cluster(links={"pairs": [{"from": 0, "to": 1, "latency_us": 5}]}),
        "cluster-links-changed",
        "the link from rank 0 to rank 1 is new",
    ),
    (
        cluster(action_overhead_us=3),
        "cluster-overhead-changed",
        "an action costs 3 us more than its work, instead of 0 us",
    ),
    (cluster(p2p="blocking"), "cluster-p2p-changed", "transfers of the cluster are blocking instead of overlapped"),
]


@pytest.mark.parametrize(("document", "name", "message"), PROFILES, ids=[case[1] for case in PROFILES])
def test_profiles(document: dict[str, Any], name: str, message: str) -> None:
    old, new = profile_from_document(profile(), "old"), profile_from_document(document, "new")
    (change,) = compare_profiles(old, new, Thresholds())
    assert (change.id, change.message) == (name, message)
    (back,) = compare_profiles(new, old, Thresholds())
    assert back.id == KINDS[name].mirror
    assert list(compare_profiles(new, new, Thresholds())) == []


@pytest.mark.parametrize(("document", "name", "message"), CLUSTERS, ids=[case[2] for case in CLUSTERS])
def test_clusters(document: dict[str, Any], name: str, message: str) -> None:
    old, new = cluster_from_document(cluster(), "old"), cluster_from_document(document, "new")
    (change,) = compare_clusters(old, new, Thresholds())
    assert (change.id, change.message) == (name, message)
    (back,) = compare_clusters(new, old, Thresholds())
    assert back.id == KINDS[name].mirror
    assert list(compare_clusters(new, new, Thresholds())) == []


def test_groups_written_otherwise_are_no_change() -> None:
    grouped = cluster(1, ranks__0__count=2)
    both = [cluster_from_document(document, "cluster") for document in (cluster(), grouped)]
    assert list(compare_clusters(*both, Thresholds())) == []
    repeated = profile()
    repeated["layers"] = [*LAYERS[:1], {"repeat": 2, "of": ["mamba", "mlp"]}, *LAYERS[5:]]
    models = [profile_from_document(document, "profile") for document in (profile(), repeated)]
    assert list(compare_profiles(*models, Thresholds())) == []


def test_the_details_name_each_pass() -> None:
    slower = profile(kinds__head__times__a100__forward_ms=6, kinds__head__times__a100__backward_weight_ms=3)
    both = [profile_from_document(document, "profile") for document in (profile(), slower)]
    (change,) = compare_profiles(*both, Thresholds())
    assert change.id == "kind-times-shifted"
    assert change.details == ("forward 5 ms to 6 ms (+20.0 %)", "backward_weight 4 ms to 3 ms (-25.0 %)")


def test_plans_with_their_inputs() -> None:
    slower = profile(kinds__head__times__a100__forward_ms=6)
    files = {
        "old_profile": profile_from_document(profile(), "old"),
        "new_profile": profile_from_document(slower, "new"),
        "old_cluster": cluster_from_document(cluster(), "old"),
        "new_cluster": cluster_from_document(cluster(), "new"),
    }
    changes = [change.id for change in compare_plans(plan(), plan(model=slower), **files)]  # type: ignore[arg-type]
    assert "kind-slower" in changes
    assert not [name for name in changes if name.startswith("cluster")]
    assert changes.index("profile-changed") < changes.index("kind-slower")


def test_a_kind_that_took_no_time() -> None:
    nothing = profile(kinds__head__times__a100={"forward_ms": 0, "backward_input_ms": 0, "backward_weight_ms": 0})
    both = [profile_from_document(document, "profile") for document in (nothing, profile(name="x"))]
    (change,) = compare_profiles(*both, Thresholds())
    assert (change.id, change.old, change.new) == ("kind-slower", 0.0, 14.0)


def test_removed_is_the_other_way_round() -> None:
    fewer = profile(("embedding", "head"), kinds__attention=REMOVED)
    both = [profile_from_document(document, "profile") for document in (profile(), fewer)]
    assert [change.id for change in compare_profiles(*both, Thresholds())] == ["kind-removed", "profile-layers-changed"]
