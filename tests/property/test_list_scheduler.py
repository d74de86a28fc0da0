"""The list scheduler on random pipelines: what it promises is what the simulator finds, within every limit."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from octopipe_cli.list_scheduler import (
    FORWARD,
    HELD,
    NEVER,
    NEXT,
    ROOM,
    SLOT,
    WEIGHT,
    Ints,
    StageCosts,
    new_scratch,
    orders_of_log,
    schedule,
    stage_costs,
)
from octopipe_cli.pipeline import Pipeline, build_pipeline
from octopipe_cli.simulate import Timeline, simulate

from ..instances import loaded_cluster, loaded_profile, pipeline_of, random_instance
from ..pipelines import random_pipeline, with_limits

SEEDS = st.integers(0, 2**32)


class Drawn:
    """A pipeline, which of its stages are fused, and a priority rule."""

    def __init__(self, rng: Random, pipeline: Pipeline, limited: bool) -> None:
        n, m = pipeline.num_stages, pipeline.num_microbatches
        self.fused = None if rng.random() < 0.5 else tuple(rng.random() < 0.5 for _ in range(n))
        self.pipeline = with_limits(rng, pipeline, self.fused) if limited else pipeline
        self.rule = (rng.choice((0, 1, 5, 50, 10_000)), rng.choice((0, 3, 100, 100_000)), rng.choice((0, 0, 2, 50)))
        self.extra = np.zeros((2, 0, 0), np.int64)
        if rng.random() < 0.3:
            drawn = [[[rng.randint(-30, 30) for _ in range(m)] for _ in range(n)] for _ in range(2)]
            self.extra = np.array(drawn, np.int64)
        self.by_span = rng.random() < 0.3
        self.costs, self.step, self.memory = stage_costs(self.pipeline, self.fused)

    def run(self, cutoff: int = NEVER, costs: StageCosts | None = None) -> tuple[int, Ints]:
        p = self.pipeline
        log = np.zeros((3 * p.num_stages * p.num_microbatches, 4), np.int64)
        scratch = new_scratch(p.num_stages, p.num_ranks, p.num_microbatches)
        value = schedule(
            costs or self.costs, p.num_stages, p.num_ranks, p.num_microbatches, self.step, self.memory,
            (p.p2p == "blocking", self.by_span), self.rule, self.extra, scratch, cutoff, log,
        )  # fmt: skip
        return int(value), log[: int(scratch.tree[0])]

    def has_room(self) -> bool:
        """Return whether every rank has room for one micro-batch, its reserve, and a tensor of the next."""
        if self.memory is None:
            return True
        return all(
            self.memory[[SLOT, NEXT], d].sum() + sum(self.costs.sizes[HELD, s] for s in stages) <= self.memory[ROOM, d]
            for d, stages in enumerate(self.pipeline.stages_of)
        )

    def check(self, value: int, log: Ints, costs: StageCosts | None = None) -> Timeline:
        """Hold a schedule against the simulator's replay of its orders."""
        costs = costs or self.costs
        timeline = simulate(self.pipeline, orders_of_log(log, costs, self.pipeline.num_ranks))
        starts = {
            (a.stage, FORWARD if a.kind == "F" else WEIGHT if a.kind == "W" else 1, a.microbatch): start
            for actions, times in zip(timeline.orders, timeline.start_ns, strict=True)
            for a, start in zip(actions, times, strict=True)
        }
        assert {(s, kind, m): start for s, kind, m, start in log.tolist()} == starts
        assert value == (timeline.span_ns if self.by_span else timeline.step_time_ns)
        assert timeline.fits
        return timeline


@pytest.mark.parametrize("limited", [False, True])
@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_schedules_are_what_the_simulator_replays(limited: bool, seed: int) -> None:
    rng = Random(seed)
    drawn = Drawn(rng, random_pipeline(rng), limited)
    value, log = drawn.run()
    if value >= NEVER:
        assert limited  # seldom: see the test below
        return
    drawn.check(value, log)
    assert drawn.run(value)[0] == value
    assert drawn.run(value - 1)[0] == NEVER


def test_schedules_of_whole_instances() -> None:
    """Profiles, clusters and assignments of the other property tests, their own limits included."""
    dead_ends = roomy = 0
    for seed in range(300):
        rng = Random(seed)
        instance = random_instance(rng)
        profile, cluster = loaded_profile(instance.profile).value, loaded_cluster(instance.cluster).value
        pipeline = build_pipeline(profile, cluster, instance.assignment, instance.num_microbatches)
        drawn = Drawn(rng, pipeline, False)
        value, log = drawn.run()
        if value < NEVER:
            drawn.check(value, log)
        roomy += drawn.has_room()
        dead_ends += drawn.has_room() and value >= NEVER
    assert roomy > 150
    assert dead_ends <= 2  # boundary tensors here may be many times larger than all that stages hold


def test_schedules_of_micro_batches_that_differ() -> None:
    scheduled = 0
    for seed in range(150):
        rng = Random(seed)
        instance = random_instance(rng, lengths=True)
        drawn = Drawn(rng, pipeline_of(instance), False)
        value, log = drawn.run()
        if value < NEVER:
            drawn.check(value, log)
            assert drawn.run(value - 1)[0] == NEVER
        scheduled += value < NEVER
    assert scheduled > 90


def modest(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline with boundary tensors and rests after I no larger than what stages hold, as models have."""
    stages = []
    for s, stage in enumerate(pipeline.stages):
        held = max(stage.bytes.held, 4)
        into, out = int(s > 0) * 3, int(s + 1 < pipeline.num_stages) * 3
        weight = min(stage.bytes.weight, held)
        sizes = structs.replace(stage.bytes, held=held, weight=weight, input=into, output=out)
        stages.append(replace(stage, bytes=sizes))
    return replace(pipeline, stages=tuple(stages))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_the_reserve_leads_past_dead_ends(seed: int) -> None:
    """None in these examples; 7 in 20,000 others had one."""
    rng = Random(seed)
    drawn = Drawn(rng, modest(random_pipeline(rng)), True)
    value, log = drawn.run()
    assert value < NEVER
    drawn.check(value, log)


@pytest.mark.parametrize("limited", [False, True])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_microbatches_of_their_own(limited: bool, seed: int) -> None:
    """Columns of equal values change nothing; B for some micro-batches and I, W for others replays."""
    rng = Random(seed)
    drawn = Drawn(rng, random_pipeline(rng), limited)
    m = drawn.pipeline.num_microbatches
    costs = drawn.costs
    alike = costs._replace(
        times=np.ascontiguousarray(np.repeat(costs.times, m, axis=2)),
        fused=np.ascontiguousarray(np.repeat(costs.fused, m, axis=1)),
    )
    value, log = drawn.run()
    again, log_again = drawn.run(costs=alike)
    assert again == value
    assert log_again.tolist() == log.tolist()
    flags = alike.fused | np.array([[rng.random() < 0.5 for _ in range(m)] for _ in range(drawn.pipeline.num_stages)])
    mixed = alike._replace(fused=flags.astype(np.int64))
    value, log = drawn.run(costs=mixed)
    if value < NEVER:
        timeline = drawn.check(value, log, mixed)
        assert sum(a.kind == "B" for actions in timeline.orders for a in actions) == int(flags.sum())
