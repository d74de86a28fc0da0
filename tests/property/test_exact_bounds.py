"""No bound exceeds the best plan of a tiny instance, whatever is asked for."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from octopipe_cli.cluster import cluster_from_document
from octopipe_cli.plan import Request
from octopipe_cli.profile import profile_from_document
from octopipe_cli.search.relaxation import lower_bound

from ..exact import ExactModel

MEMORY = ("unlimited", "tight", "roomy")
CASES = list(product(MEMORY, ("split", "fused"), ("none", "auto", "full"), ("overlapped", "blocking")))
UNIT = 2**26


def tiny(rng: Random, memory: str, p2p: str, most_layers: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return a profile, a cluster and a number of micro-batches: 2 or 3 ranks, 2 to 4 micro-batches, few layers."""
    ranks = rng.choice((2, 2, 3))
    layers = rng.randint(ranks, most_layers)
    number = rng.randint(2, 4 if layers < 4 else 3)
    sizes = ("state_bytes", "activation_bytes", "weight_activation_bytes", "workspace_bytes")
    kinds: dict[str, Any] = {}
    for name in "abc":
        times = [rng.choice((0, 1, 2, 3, 5, 8)) * 1e-6 for _ in range(3)]
        times[0] = times[0] or 1e-6
        keys = ("forward_ms", "backward_input_ms", "backward_weight_ms")
        kinds[name] = {size: rng.randint(0, most) * UNIT for size, most in zip(sizes, (4, 8, 8, 2), strict=True)}
        kinds[name] |= {"times": {"gpu": dict(zip(keys, times, strict=True))}, "output_bytes": rng.choice((0, 0, 3))}
    chosen = [rng.choice("aab" if layer < layers - 1 else "bc") for layer in range(layers)]
    gib = None
    if memory != "unlimited":
        used = [kinds[name] for name in chosen]
        need = sum(kind["state_bytes"] for kind in used) / ranks + sum(kind["activation_bytes"] for kind in used)
        gib = need * (0.7 if memory == "tight" else 1.1) / 2**30
        gib = max(gib, 2 * max(kind["state_bytes"] + 2 * kind["activation_bytes"] for kind in used) / 2**30 * 0.6)
    group = {"count": ranks, "hardware": "gpu", "memory_gib": gib}
    groups = [group]
    if rng.random() < 0.3:
        groups = [{**group, "count": ranks - 1}, {**group, "count": 1, "speed": 0.5}]
    links = {"within_node": {"latency_us": rng.choice((0, 0.001, 0.004))}}
    cluster = {"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": groups, "links": links, "p2p": p2p}
    cluster["action_overhead_us"] = rng.choice((0, 0, 0.001))
    profile = {"schema": "octopipe.profile", "version": 1, "name": "p", "kinds": kinds, "layers": chosen}
    return profile, cluster, number


def compared(seed: int, deterministic_time: float, most_layers: int) -> tuple[int, int, bool, tuple[str, ...]] | None:
    """Return the bound, the best plan's step time, whether it is proven best, and what was asked for."""
    case = CASES[seed % len(CASES)]
    memory, backward, recompute, p2p = case
    documents = tiny(Random(seed), memory, p2p, most_layers)
    profile = profile_from_document(documents[0], "profile")
    cluster = cluster_from_document(documents[1], "cluster")
    request = Request(num_microbatches=documents[2], backward=backward, recompute=recompute)  # type: ignore[arg-type]
    best = ExactModel(profile, cluster, request).best(deterministic_time)
    if best is None or not best[0].fits:
        return None
    bound = lower_bound(profile, cluster, request, deterministic_time=0.5)
    return bound.step_time_ns, best[0].step_time_ns, best[1], (*case, bound.argument)


def check(seed: int, deterministic_time: float, most_layers: int) -> None:
    found = compared(seed, deterministic_time, most_layers)
    if found is not None:
        assert found[0] <= found[1], found


@pytest.mark.parametrize("seed", range(len(CASES)))
def test_no_bound_exceeds_the_best_plan(seed: int) -> None:
    check(seed, 0.1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(CASES), 6 * len(CASES)))
def test_no_bound_exceeds_the_best_plan_of_many(seed: int) -> None:
    check(seed, 2.0, 6)
