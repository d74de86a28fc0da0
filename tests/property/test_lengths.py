"""Micro-batches that differ: simulator and verifier against the outside oracle.

``pytest -m slow tests/property/test_lengths.py`` draws five hundred instances.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import msgspec
import pytest

from octopipe_cli.conversion import convert
from octopipe_cli.errors import InfeasibleError, LimitError
from octopipe_cli.plan import Plan, Request, plan_document, plan_text
from octopipe_cli.replay import needs_inputs, replay
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.verify import verify

from ..instances import load_oracle, loaded_cluster, loaded_profile, oracle_refusal, plan_from, random_instance

TINY = Budget(0.05, 0.02, 0.02, 20_000, ((2, 1, 20_000),), 5_000)


def hold(seed: int) -> bool:
    """Hold simulator, replay and verifier against the oracle; return whether the micro-batches really differ."""
    instance = random_instance(Random(seed), lengths=True)
    plan = plan_from(instance)
    document = json.loads(plan_text(plan))
    oracle = load_oracle()
    assert oracle_refusal(oracle, instance.profile, instance.cluster, document) is None, seed
    profile, cluster = loaded_profile(instance.profile), loaded_cluster(instance.cluster)
    read = convert(document, Plan, "plan")
    assert verify(read, profile, cluster) == [], seed
    timeline = replay(read, "plan", (profile.value, cluster.value))
    assert timeline.step_time_ns == plan.predicted.step_time_ns, seed
    recomputed = oracle.recompute(instance.profile, instance.cluster, document)
    assert recomputed["ranks"] == plan_document(plan)["predicted"]["ranks"], seed
    return needs_inputs(plan)


def test_all_agree_on_micro_batches_that_differ() -> None:
    assert sum(hold(seed) for seed in range(80)) >= 60


@pytest.mark.slow
def test_all_agree_on_five_hundred_instances() -> None:
    assert sum(hold(seed) for seed in range(1000, 1500)) >= 400


def test_verifier_and_oracle_refuse_what_belongs_to_other_lengths() -> None:
    refused = 0
    for seed in range(60):
        instance = random_instance(Random(seed), lengths=True)
        document = json.loads(plan_text(plan_from(instance)))
        rng = Random(seed)
        values = document["request"]["lengths"][rng.choice(list(document["request"]["lengths"]))]
        values[rng.randrange(len(values))] += 0.5
        said = oracle_refusal(load_oracle(), instance.profile, instance.cluster, document)
        found = verify(
            convert(document, Plan, "plan"), loaded_profile(instance.profile), loaded_cluster(instance.cluster)
        )
        assert bool(found) == (said is not None), (seed, said, found)
        refused += bool(found)
    assert refused >= 20


def planned(seed: int) -> str:
    """Plan for micro-batches that differ and hold the plan against the oracle; return how it ended."""
    rng = Random(seed)
    instance = random_instance(rng, lengths=True)
    request = Request(
        num_microbatches=instance.num_microbatches,
        lengths=instance.lengths,
        recompute=rng.choice(("auto", "none", "full")),
        backward=rng.choice(("split", "split", "fused")),
        placement=rng.choice(("free", "free", "cyclic", "v")),
        objective=rng.choice(("step", "step", "span")),
        keep_order=rng.choice((None, None, True)),
    )
    try:
        plan = make_plan(loaded_profile(instance.profile), loaded_cluster(instance.cluster), request, budget=TINY)
    except (InfeasibleError, LimitError) as error:
        return type(error).__name__
    document = plan_document(plan)
    assert oracle_refusal(load_oracle(), instance.profile, instance.cluster, document) is None, seed
    assert not (request.keep_order and plan.microbatch_order)
    return "plan" if plan.microbatch_order is None else "another order"


def test_plans_hold_against_the_oracle() -> None:
    ends = Counter(planned(seed) for seed in range(24))
    assert ends["plan"] + ends["another order"] >= 16, ends
    assert ends["another order"] >= 2, ends


def test_lengths_of_one_give_the_same_plan() -> None:
    for seed in range(3):
        instance = random_instance(Random(seed))
        inputs = (loaded_profile(instance.profile), loaded_cluster(instance.cluster))
        number = instance.num_microbatches
        alike = make_plan(*inputs, Request(num_microbatches=number), budget=TINY)
        ones = make_plan(*inputs, Request(num_microbatches=number, lengths={"text": [1.0] * number}), budget=TINY)
        bare = [msgspec.structs.replace(p, request=alike.request, content_digest=None) for p in (alike, ones)]
        assert plan_text(bare[0]) == plan_text(bare[1])
