"""No bound exceeds the best plan of a tiny instance, whatever is asked for; nor does the exact bound, or any plan."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.lengths import request_lengths
from octopipe_cli.plan import Request
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.search.exact import LONGEST_NS, MOST, ExactAnswer, best_plan
from octopipe_cli.search.relaxation import lower_bound

from ..instances import random_instance, timeline_of
from .test_bounds import narrowest_request

UNIT = 2**26
HORIZON_NS = 20_000


class Case(NamedTuple):
    """What is combined with everything else."""

    memory: str
    backward: Any
    recompute: Any
    p2p: str
    mixed: bool
    by_node: bool
    lengths: bool


CHOICES = (
    ("unlimited", "tight", "roomy"),
    ("split", "fused"),
    ("none", "auto", "full"),
    ("overlapped", "blocking"),
    (False, True),
    (False, True),
    (False, True),
)
CASES = [Case(*chosen) for chosen in product(*CHOICES)]


class Tiny(NamedTuple):
    """An instance, and what is asked for."""

    profile: Profile
    cluster: Cluster
    request: Request


def tiny(seed: int, most_layers: int) -> Tiny:
    """Return 2 or 3 ranks, 2 to 4 micro-batches and few layers, for one of the cases after the other."""
    case, rng = CASES[seed % len(CASES)], Random(seed)
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
        kinds[name] |= {"quadratic_share": rng.choice((0, 0.5))} if case.lengths else {}
    chosen = [rng.choice("aab" if layer < layers - 1 else "bc") for layer in range(layers)]
    profile = {"schema": "octopipe.profile", "version": 1, "name": "p", "kinds": kinds, "layers": chosen}
    gib = _limit_gib(case.memory, [kinds[name] for name in chosen], ranks)
    groups: list[dict[str, Any]] = [{"count": 1, "hardware": "gpu", "memory_gib": gib} for _ in range(ranks)]
    for rank, group in enumerate(groups):
        group |= {"speed": 0.5} if case.mixed and rank == ranks - 1 else {}
        group |= {"node": rank % 2} if case.by_node else {}
    links: dict[str, Any] = {"within_node": {"latency_us": rng.choice((0, 0.001, 0.004))}}
    if case.by_node:
        links |= {"between_nodes": {"latency_us": rng.choice((0.002, 0.006))}}
        links |= {"pairs": [{"from": 0, "to": 1, "latency_us": rng.choice((0, 0.009))}]} if rng.random() < 0.5 else {}
    cluster = {"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": groups, "links": links}
    cluster |= {"p2p": case.p2p, "action_overhead_us": rng.choice((0, 0, 0.001))}
    lists = {"text": [rng.choice((0, 0.3, 1, 2.5)) for _ in range(number)]} if case.lengths else None
    return Tiny(
        profile_from_document(profile, "profile"),
        cluster_from_document(cluster, "cluster"),
        Request(num_microbatches=number, backward=case.backward, recompute=case.recompute, lengths=lists),
    )


def _limit_gib(memory: str, used: list[dict[str, Any]], ranks: int) -> float | None:
    if memory == "unlimited":
        return None
    need = sum(kind["state_bytes"] for kind in used) / ranks + sum(kind["activation_bytes"] for kind in used)
    gib = need * (0.7 if memory == "tight" else 1.1) / 2**30
    least = 2 * max(kind["state_bytes"] + 2 * kind["activation_bytes"] for kind in used) / 2**30 * 0.6
    return max(gib, least, UNIT / 2**30)  # no memory at all is no cluster's


def exact(instance: Tiny, most_ns: int, deterministic_time: float) -> ExactAnswer:
    """Return the best plan, looked for with no bound given."""
    lengths = request_lengths(instance.profile, instance.request)
    return best_plan(*instance, least_ns=0, most_ns=most_ns, lengths=lengths, deterministic_time=deterministic_time)


def check(seed: int, deterministic_time: float, most_layers: int) -> None:
    instance = tiny(seed, most_layers)
    found = exact(instance, HORIZON_NS, deterministic_time)
    if found.plan is None:
        return
    step_time = found.plan[1].step_time_ns
    bound = lower_bound(*instance, deterministic_time=deterministic_time)
    case = CASES[seed % len(CASES)]
    assert bound.step_time_ns <= step_time, (seed, case, bound)
    assert found.bound_ns <= step_time, (seed, case)


@pytest.mark.parametrize("seed", range(0, len(CASES), 7))
def test_no_bound_exceeds_the_best_plan(seed: int) -> None:
    check(seed, 0.03, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(CASES), 7 * len(CASES)))
def test_no_bound_exceeds_the_best_plan_of_many(seed: int) -> None:
    check(seed, 0.05, 3 if seed % 8 else 6)


@pytest.mark.parametrize("lengths", [False, True])
def test_no_plan_beats_the_exact_bound(lengths: bool) -> None:
    """Plans of random instances, with all that the formats have."""
    tried = 0
    for seed in range(60):
        rng = Random(seed)
        instance = random_instance(rng, lengths=lengths)
        request = msgspec.structs.replace(
            narrowest_request(rng, instance), objective="step", placement="free", max_stages_per_rank=None
        )
        profile, cluster = (
            profile_from_document(instance.profile, "profile"),
            cluster_from_document(instance.cluster, "cluster"),
        )
        step_time = timeline_of(instance).step_time_ns
        small = profile.num_layers * instance.num_microbatches * cluster.num_ranks <= MOST // 4
        if not small or step_time > LONGEST_NS:
            continue
        tried += 1
        found = exact(Tiny(profile, cluster, request), step_time, 0.03)
        assert found.bound_ns <= step_time, seed
        if found.plan is not None:
            assert found.bound_ns <= found.plan[1].step_time_ns <= step_time, seed
    assert tried > 5
