"""Cuts for a sequence of ranks: the best there are on small models, legal and roomy ones on all."""

from __future__ import annotations

from itertools import combinations

import pytest

from octopipe_cli.cluster import Cluster
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, Rules
from octopipe_cli.search.least_memory import serial_need_bytes
from octopipe_cli.search.partition_model import balanced_cuts, roomiest_cuts

from .test_relaxation import flat, layered

HYBRID = {"m": {"ns": (27, 43, 18)}, "f": {"ns": (18, 19, 17)}, "e": {"ns": (8, 29, 0)}, "h": {"ns": (142, 157, 1)}}
LAYERS = ["e", *"mfmfmmfmfm", "h"]


def slowest_ns(profile: Profile, cluster: Cluster, cuts: tuple[int, ...], ranks: tuple[int, ...], number: int) -> int:
    """Return the largest first start + work, and + F and I work + way back, of the ranks."""
    pipeline = build_pipeline(profile, cluster, Assignment(cuts, ranks, (False,) * len(ranks)), number)
    cost = [stage.action_ns for stage in pipeline.stages]
    worst = 0
    for stages in pipeline.stages_of:
        before = pipeline.stages[: stages[0]]
        start = sum(stage.action_ns["F"] + stage.forward_transfer_ns for stage in before)
        back = sum(stage.action_ns["I"] for stage in before)
        back += sum(stage.backward_transfer_ns for stage in pipeline.stages[1 : stages[0] + 1])
        through = number * sum(cost[s]["F"] + cost[s]["I"] for s in stages)
        worst = max(worst, start + through + max(number * sum(cost[s]["W"] for s in stages), back))
    return worst


def every_cut(num_layers: int, num_stages: int) -> list[tuple[int, ...]]:
    return [(0, *inner, num_layers) for inner in combinations(range(1, num_layers), num_stages - 1)]


@pytest.mark.parametrize("ranks", [(0, 1, 2), (0, 1, 2, 0, 1, 2), (0, 1, 1, 0, 2)], ids=str)
def test_no_other_cuts_are_better(ranks: tuple[int, ...]) -> None:
    profile, cluster = layered(LAYERS, **{name: dict(kind) for name, kind in HYBRID.items()}), flat(3)
    found = balanced_cuts(profile, cluster, Request(num_microbatches=6), ranks, deterministic_time=2.0)
    assert found is not None
    best = min(slowest_ns(profile, cluster, cuts, ranks, 6) for cuts in every_cut(len(LAYERS), len(ranks)))
    assert slowest_ns(profile, cluster, found, ranks, 6) == best


def test_transfers_count() -> None:
    kinds = {name: {**kind, "output_bytes": 7000 if name == "m" else 100} for name, kind in HYBRID.items()}
    profile = layered(LAYERS, **kinds)
    cluster = flat(2, links={"within_node": {"bandwidth_gb_per_s": 10}})
    found = balanced_cuts(profile, cluster, Request(num_microbatches=1), (0, 1), deterministic_time=2.0)
    assert found is not None
    best = min(slowest_ns(profile, cluster, cuts, (0, 1), 1) for cuts in every_cut(len(LAYERS), 2))
    assert slowest_ns(profile, cluster, found, (0, 1), 1) == best


def test_rules_are_kept() -> None:
    kinds = {name: dict(kind) for name, kind in HYBRID.items()}
    profile = layered(LAYERS, **kinds)
    ruled = type(profile)(
        **{key: getattr(profile, key) for key in ("schema", "version", "name", "kinds", "layers")},
        rules=Rules(no_cut_after=[0, 2, 3], same_rank=[[1, 7]]),
    )
    ranks = (0, 1, 2, 0, 1, 2)
    found = balanced_cuts(ruled, flat(3), Request(num_microbatches=6), ranks, deterministic_time=2.0)
    assert found is not None
    assert not {cut - 1 for cut in found} & {0, 2, 3}
    holders = [ranks[s] for s in range(6) for _ in range(found[s], found[s + 1])]
    assert holders[1] == holders[7]


def test_memory_is_kept_or_there_are_none() -> None:
    """Six layers of 1 GiB state and activation each: three a rank need 6 GiB, and the gradient's 0.5."""
    kind = {"ns": (1, 1, 1), "state_bytes": 2**30, "activation_bytes": 2**30, "output_bytes": 2**29}
    slow = {**kind, "ns": (9, 9, 9)}
    profile = layered(["s", *"aaaaa"], a=kind, s=slow)
    request = Request(num_microbatches=2)
    assert balanced_cuts(profile, flat(2), request, (0, 1), deterministic_time=1.0) == (0, 1, 6)
    assert balanced_cuts(profile, flat(2, 6.5), request, (0, 1), deterministic_time=1.0) == (0, 3, 6)
    assert balanced_cuts(profile, flat(2, 6.4), request, (0, 1), deterministic_time=1.0) is None
    roomiest = roomiest_cuts(profile, flat(2, 6.4), request, (0, 1), deterministic_time=1.0)
    assert roomiest == (0, 3, 6)
    pipeline = build_pipeline(profile, flat(2), Assignment(roomiest, (0, 1), (False, False)), 2)
    assert serial_need_bytes(pipeline) == (int(6.5 * 2**30), 6 * 2**30)


def test_more_stages_than_layers() -> None:
    profile = layered(["m", "m"], m={"ns": (1, 1, 1)})
    assert balanced_cuts(profile, flat(2), Request(num_microbatches=2), (0, 1, 0), deterministic_time=1.0) is None


def test_the_same_cuts_again() -> None:
    profile = layered([*LAYERS[:-1], *LAYERS[1:]], **{name: dict(kind) for name, kind in HYBRID.items()})
    runs = [
        balanced_cuts(profile, flat(3), Request(num_microbatches=6), (0, 1, 2) * 3, deterministic_time=0.2)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] is not None
