"""The simulator against the outside oracle on random instances: to the nanosecond and to the byte."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.plan import plan_document

from ..instances import Instance, load_oracle, plan_from, random_instance, timeline_of


@pytest.mark.parametrize("engine", ["any", "megatron"])
@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_simulator_and_oracle_agree(engine: str, seed: int) -> None:
    instance = random_instance(Random(seed), empty_stages=engine == "megatron")
    plan = plan_document(plan_from(instance, engine=engine))
    recomputed = load_oracle().recompute(instance.profile, instance.cluster, plan)
    assert recomputed["bubble_ratio"] == pytest.approx(plan["predicted"].pop("bubble_ratio"), rel=0, abs=1e-12)
    del recomputed["bubble_ratio"]
    assert recomputed == plan["predicted"]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32))
def test_bubbles_and_curves_add_up(seed: int) -> None:
    instance: Instance = random_instance(Random(seed))
    timeline = timeline_of(instance)
    for rank, step_ns in enumerate(timeline.pipeline.step_ns):
        bubbles = timeline.bubbles(rank)
        assert min(bubbles) >= 0
        assert sum(bubbles) + timeline.busy_ns[rank] + step_ns == timeline.step_time_ns
        curve = timeline.memory_curve(rank)
        assert max(size for _, size in curve) == timeline.peak_memory_bytes[rank]
        assert curve[-1][1] == timeline.pipeline.state_bytes(rank)
        assert [time for time, _ in curve] == sorted({time for time, _ in curve})
