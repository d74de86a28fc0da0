"""The bound on any plan: exact where it can be worked out by hand, the targets on the paper's profiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.search.relaxation import CertifiedBound, lower_bound

SHARED = Path(__file__).parents[3] / "shared" / "reference"
NAMES = {"E": "embedding", "M": "mamba", "-": "mlp", "*": "attention", "T": "transformer", "#": "moe", "L": "head"}


def layered(layers: list[Any], **kinds: dict[str, Any]) -> Profile:
    """Return a profile; a kind is its F, I, W in ns (and B, step), and sizes."""
    names = ("forward_ms", "backward_input_ms", "backward_weight_ms", "backward_ms", "step_ms")
    document = {
        name: {
            "times": {"gpu": {key: ns * 1e-6 for key, ns in zip(names, kind.pop("ns"), strict=False)}},
            **kind,
        }
        for name, kind in kinds.items()
    }
    return profile_from_document(
        {"schema": "octopipe.profile", "version": 1, "name": "p", "kinds": document, "layers": layers}, "profile"
    )


def flat(count: int, memory_gib: float | None = None, **more: Any) -> Cluster:
    ranks = [{"count": count, "hardware": "gpu", "memory_gib": memory_gib}]
    return cluster_from_document(
        {"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": ranks, **more}, "cluster"
    )


def bound(profile: Profile, cluster: Cluster, num_microbatches: int, **request: Any) -> CertifiedBound:
    asked = Request(num_microbatches=num_microbatches, **request)
    return lower_bound(profile, cluster, asked, deterministic_time=1.0)


def test_one_rank_does_all_the_work() -> None:
    profile = layered(["a", "b"], a={"ns": (10, 20, 30)}, b={"ns": (1, 2, 3)})
    found = bound(profile, flat(1), 5)
    assert (found.step_time_ns, found.status) == (5 * 66, "optimal")


def test_two_layers_on_two_ranks() -> None:
    """Rank 1 starts after F of layer 0; backward split, its W may come last: 10 + 4 x 60."""
    profile = layered(["a", "a"], a={"ns": (10, 20, 30)})
    assert bound(profile, flat(2), 4).step_time_ns == 10 + 4 * 60
    # in one piece, layer 0's B follows the last of rank 1
    assert bound(profile, flat(2), 4, backward="fused").step_time_ns == 10 + 4 * 60 + 50


def test_recomputation_repeats_the_forwards() -> None:
    profile = layered(["a", "a"], a={"ns": (10, 20, 30)})
    assert bound(profile, flat(2), 4, recompute="full").step_time_ns == 10 + 4 * 70


def test_transfers_and_launches_count() -> None:
    profile = layered(["a", "a"], a={"ns": (10, 20, 30), "output_bytes": 1000})
    links = {"within_node": {"bandwidth_gb_per_s": 200, "latency_us": 0.002}}  # 2 + 5 ns
    found = bound(profile, flat(2, links=links, action_overhead_us=0.001), 4)
    assert found.step_time_ns == (10 + 1 + 7) + 4 * (60 + 2)  # an F and a B a micro-batch at least


def test_b_in_one_piece_may_be_cheaper() -> None:
    profile = layered(["a", "a"], a={"ns": (10, 20, 30, 40, 5)})
    assert bound(profile, flat(2), 4).step_time_ns == 10 + 4 * 50 + 5


def test_layers_do_not_divide() -> None:
    """Five equal layers on two ranks: one has three, and rank 0 may be that one."""
    profile = layered([{"repeat": 5, "of": ["a"]}], a={"ns": (1, 1, 1)})
    assert bound(profile, flat(2), 8).step_time_ns == 8 * 9


def test_memory_keeps_layers_apart() -> None:
    """Three layers of 1 GiB cannot share 2.5 GiB: two and two, though the load alone would have it otherwise."""
    heavy = {"ns": (1, 1, 1), "state_bytes": 2**30}
    profile = layered(["h", "h", "h", "l"], h=heavy, l={"ns": (6, 6, 6)})
    assert bound(profile, flat(2, 10), 8).step_time_ns < bound(profile, flat(2, 2.5), 8).step_time_ns


def test_span_leaves_out_the_start() -> None:
    profile = layered(["a", "a"], a={"ns": (10, 20, 30)})
    found = bound(profile, flat(2), 8, objective="span")
    assert (found.step_time_ns, found.span_ns) == (10 + 8 * 60, 8 * 60)


def test_stop_and_repetition() -> None:
    profile = layered([{"repeat": 9, "of": ["a", "b"]}], a={"ns": (100, 203, 99)}, b={"ns": (61, 77, 51)})
    request = Request(num_microbatches=8)
    stopped = lower_bound(profile, flat(4), request, deterministic_time=1.0, stop=lambda: True)
    whole = lower_bound(profile, flat(4), request, deterministic_time=0.3)
    assert stopped.step_time_ns == 8 * 9 * 591 // 4
    assert stopped.status == "bounded"
    assert stopped.step_time_ns < whole.step_time_ns
    assert lower_bound(profile, flat(4), request, deterministic_time=0.3) == whole


@pytest.mark.parametrize(
    ("name", "at_least_ms"), [("nemotron-nano-v2-9B", 854.0), ("llama3-8B", 749.3), ("jamba-52B", 1447.9)]
)
def test_paper_profiles(name: str, at_least_ms: float) -> None:
    if not SHARED.exists():
        pytest.skip("the reference figures are not beside this checkout")
    fits = json.loads((SHARED / "paper_profiles.json").read_text())["profiles"][name]
    row = next(r for r in json.loads((SHARED / "peer_results.json").read_text())["rows"] if r["profile"] == name)
    pattern = "E" + fits["pattern"].strip("EL") + "L"
    times = {s: tuple(fits[key][s] * 1e6 for key in ("forward_ms", "backward_ms", "weight_ms")) for s in set(pattern)}
    profile = layered([NAMES[s] for s in pattern], **{NAMES[s]: {"ns": ns} for s, ns in times.items()})
    found = bound(profile, flat(row["ranks"]), row["microbatches"])
    # the best known plans were made with times rounded to microseconds
    assert at_least_ms * 1e6 <= found.step_time_ns <= row["best_known_ms"] * 1e6 * 1.0001
