"""Micro-batches that differ: simulator and verifier against the outside oracle.

``pytest -m slow tests/property/test_lengths.py`` draws five hundred instances.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from octopipe_cli.conversion import convert
from octopipe_cli.plan import Plan, plan_document, plan_text
from octopipe_cli.replay import needs_inputs, replay
from octopipe_cli.verify import verify

from ..instances import load_oracle, loaded_cluster, loaded_profile, oracle_refusal, plan_from, random_instance


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
