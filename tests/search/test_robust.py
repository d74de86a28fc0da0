"""One plan for many sets of lengths: its values are what the simulator replays, and it bears the sets best."""

from __future__ import annotations

import json
import threading
from random import Random

import pytest

from octopipe_cli.formats import digest
from octopipe_cli.length_sets import SetTimes, found_with, reported, set_times
from octopipe_cli.pipeline import assignment_of
from octopipe_cli.plan import Request, parse_orders, plan_document
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.robust import RobustSearch
from octopipe_cli.search.tuner import Tuner, Watch
from octopipe_cli.verify import verify

from ..instances import load_oracle, loaded_cluster, loaded_profile, oracle_refusal, random_instance

TINY = Budget(0.05, 0.02, 0.02, 20_000, ((2, 1, 20_000),), 5_000)


def drawn(seed: int, limited: bool = False) -> tuple[Random, dict, dict, int]:  # type: ignore[type-arg]
    rng = Random(seed)
    instance = random_instance(rng, lengths=True)
    cluster = json.loads(json.dumps(instance.cluster))
    for group in cluster["ranks"]:
        group["memory_gib"] = 1e6 if limited else None
    return rng, instance.profile, cluster, instance.num_microbatches


def sets_of(rng: Random, number: int, count: int) -> list[dict[str, list[float]]]:
    return [
        {name: [round(rng.uniform(0, 3), 3) for _ in range(number)] for name in ("text", "vision", "audio")}
        for _ in range(count)
    ]


def test_percentiles_are_interpolated() -> None:
    times = SetTimes([50, 10, 40, 20, 30], 0)
    assert (times.mean_ns, times.p95_ns, times.worst_ns) == (30, 48, 50)
    assert SetTimes([7], 0).p95_ns == 7
    assert SetTimes([1, 2], 0).mean_ns == 2  # 1.5: to the even one


def searched_by(times: SetTimes, which: str) -> int:
    """Return the mean, or half of it and of a tail: 95th percentile or largest."""
    mean = sum(times.step_ns) // len(times.step_ns)
    return mean if which == "mean" else ({"p95": times.p95_ns, "worst": times.worst_ns}[which] + mean) // 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("which", ["mean", "p95", "worst"])
def test_values_are_those_of_the_simulator(seed: int, which: str) -> None:
    rng, profile_document, cluster_document, number = drawn(seed, limited=seed % 2 == 1)
    profile, cluster = loaded_profile(profile_document).value, loaded_cluster(cluster_document).value
    request = Request(num_microbatches=number, robust=which, lengths_digest=digest({}))  # type: ignore[arg-type]
    sets = sets_of(rng, number, 7)
    tuner = Tuner(profile, cluster, request, Watch(threading.Event(), None), 1)
    instance = random_instance(Random(seed), lengths=True)
    search = RobustSearch(profile, cluster, request, sets, tuner)
    times = set_times(profile, cluster, instance.assignment, instance.orders, sets)
    wanted = searched_by(times, which)
    found = search._judged(instance.assignment, instance.orders)
    assert abs(found.value - wanted) <= 1
    assert search.orders(found) == instance.orders
    better = search._ordered(found, 0, 50_000)
    assert better.value <= found.value
    again = set_times(profile, cluster, instance.assignment, search.orders(better), sets)
    wanted = searched_by(again, which)
    assert abs(better.value - wanted) <= 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_robust_plan_bears_its_sets_better(seed: int) -> None:
    rng, profile_document, cluster_document, number = drawn(seed)
    profile, cluster = loaded_profile(profile_document), loaded_cluster(cluster_document)
    sets = sets_of(rng, number, 8)
    said = digest({"lengths": sets})
    equal = make_plan(profile, cluster, Request(num_microbatches=number), budget=TINY)
    request = Request(num_microbatches=number, robust="mean", lengths_digest=said)
    robust = make_plan(profile, cluster, request, budget=TINY, sets=sets)
    assert oracle_refusal(load_oracle(), profile_document, cluster_document, plan_document(robust)) is None
    assert verify(robust, profile, cluster) == []
    assert robust == make_plan(profile, cluster, request, budget=TINY, sets=sets, jobs=2)

    def over(plan, chosen) -> SetTimes:  # type: ignore[no-untyped-def]
        return set_times(profile.value, cluster.value, assignment_of(plan), parse_orders(plan.orders), chosen)

    assert over(robust, found_with(sets)).mean_ns <= over(equal, found_with(sets)).mean_ns
    times = over(robust, reported(sets))
    assert robust.robust is not None
    assert (robust.robust.count, robust.robust.digest) == (4, said)
    assert (robust.robust.mean_ns, robust.robust.p95_ns) == (times.mean_ns, times.p95_ns)
    assert robust.robust.worst_ns == max(times.step_ns)
