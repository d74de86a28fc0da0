"""Searches that hold parts of a given plan fixed."""

from __future__ import annotations

import threading
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.noise import Noise, quantile
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Orders, Plan, Request, parse_orders
from octopipe_cli.search import make_plan
from octopipe_cli.search.fixed_kernel import OVER, evaluate, new_fixed_bench
from octopipe_cli.search.fixed_orders import rows_of
from octopipe_cli.search.kept_orders import cuts_for_order
from octopipe_cli.search.tables import build_tables
from octopipe_cli.search.tuner import Watch
from octopipe_cli.simulate import simulate

from ..instances import loaded_cluster, loaded_profile, random_instance
from .test_fixed_orders import BUDGET as FIXED_BUDGET
from .test_planner import cluster
from .test_warm import OLD, assigned, loaded, planned, profile

PARTS: Any = [
    ("partition",),
    ("placement",),
    ("partition", "placement"),
    ("order",),
    ("partition", "order"),
    ("partition", "placement", "order"),
]


def orders(plan: Plan) -> Orders:
    return parse_orders(plan.orders)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("memory_bytes", [None, 90])
def test_what_is_kept_stays_and_the_plan_is_no_worse(parts: tuple[str, ...], memory_bytes: int | None) -> None:
    machine = cluster(memory_bytes)
    old = planned(profile(), machine=machine)
    new = planned(profile(150), old, machine=machine, keep=parts)
    before, after = assigned(old), assigned(new)
    if "partition" in parts:
        assert after.cuts == before.cuts
    if "placement" in parts or "order" in parts:
        assert after.ranks == before.ranks
    if "order" in parts:
        assert orders(new) == orders(old)
    kept = build_pipeline(profile(150).value, machine.value, before, 4)
    timeline = simulate(kept, orders(old))
    assert timeline.fits
    assert new.predicted.step_time_ns <= timeline.step_time_ns
    if set(parts) >= {"partition", "order"}:
        assert new.predicted.step_time_ns == timeline.step_time_ns
    assert new.bound.step_time_ns <= new.predicted.step_time_ns
    assert new.request.keep == parts
    assert new == planned(profile(150), old, machine=machine, keep=parts, jobs=2)


def test_more_freedom_finds_no_slower_plans_here() -> None:
    """The head costs more than it did: the old cuts are wrong for it, and each part set free helps."""

    def step(*parts: str) -> int:
        return planned(profile(150), OLD, keep=parts).predicted.step_time_ns

    replayed = step("partition", "placement", "order")
    assert step("order") < replayed
    assert step("placement") <= step("order")
    assert planned(profile(150), OLD).predicted.step_time_ns <= step("partition", "placement") <= replayed


def test_the_bound_is_that_of_what_is_kept() -> None:
    cuts = planned(profile(150), OLD, keep=("partition",)).bound
    both = planned(profile(150), OLD, keep=("partition", "placement"))
    free = planned(profile(150), OLD, keep=("placement",)).bound
    assert (cuts.scope, free.scope) == ("any plan with the kept cuts", "any plan")
    assert both.bound.scope == "any plan with the kept partition and placement"
    assert free.step_time_ns <= cuts.step_time_ns <= both.bound.step_time_ns
    assert both.bound.plan_ns is not None
    assert both.bound.step_time_ns >= both.bound.plan_ns


@pytest.mark.parametrize("engine", ["megatron", "deepspeed", "torchtitan"])
@pytest.mark.parametrize("parts", PARTS)
def test_engines_keep_parts_too(engine: Any, parts: tuple[str, ...]) -> None:
    old = make_plan(profile(), cluster(), Request(num_microbatches=4, engine=engine), budget=FIXED_BUDGET)
    request = Request(num_microbatches=4, engine=engine, warm_start=loaded(old).digest, keep=parts)  # type: ignore[arg-type]
    new = make_plan(profile(150), cluster(), request, budget=FIXED_BUDGET, warm=loaded(old))
    assert assigned(new).cuts == assigned(old).cuts or "partition" not in parts
    assert assigned(new).ranks == assigned(old).ranks or not {"placement", "order"} & set(parts)
    assert orders(new) == orders(old) or "order" not in parts


def test_an_order_of_other_micro_batches_cannot_be_kept() -> None:
    with pytest.raises(InputError, match="the order cannot be kept") as caught:
        planned(profile(), OLD, num_microbatches=5, keep=("order",))
    assert caught.value.path == "$.orders"
    assert planned(profile(), OLD, num_microbatches=5, keep=("partition",)).request.num_microbatches == 5


@pytest.mark.parametrize("seed", range(40))
def test_replayed_candidates_are_the_simulators(seed: int) -> None:
    """Any order of F, I, W and B, any cuts on its stages: time and memory to the byte."""
    rng = Random(seed)
    instance = random_instance(rng)
    model, machine = loaded_profile(instance.profile).value, loaded_cluster(instance.cluster).value
    kept, number = instance.assignment, instance.num_microbatches
    request = Request(num_microbatches=number)
    tables = build_tables(model, machine, request)
    limited = any(member.memory_limit_bytes is not None for member in machine.members)
    bench = new_fixed_bench(rows_of(instance.orders), kept.ranks, number, False, limited, 0)
    bench.recompute[:] = kept.recompute
    settings = (machine.action_overhead_ns, machine.p2p == "blocking", False, (-1, 0, 0), NEVER)
    inner = list(combinations(range(1, model.num_layers), kept.num_stages - 1))
    for cuts in [kept.cuts[1:-1], *rng.sample(inner, min(6, len(inner)))]:
        made = Assignment((0, *cuts, model.num_layers), kept.ranks, kept.recompute)
        value = int(evaluate(tables, bench, np.array(made.cuts), *settings))
        pipeline = build_pipeline(model, machine, made, number)
        runs = all(action.kind in pipeline.stages[action.stage].action_ns for row in instance.orders for action in row)
        if not runs or value == NEVER:
            assert cuts != kept.cuts[1:-1]
            continue
        timeline = simulate(pipeline, instance.orders)
        assert (value < OVER) == timeline.fits
        assert value == timeline.step_time_ns or not timeline.fits


def test_no_cuts_are_better_for_a_kept_order() -> None:
    request = Request(num_microbatches=4)
    inputs, machine = profile(150), cluster()
    old = assigned(OLD)
    settings: Any = {"work": 2_000_000, "watch": Watch(threading.Event(), None), "jobs": 2}
    found = cuts_for_order(inputs.value, machine.value, request, old, orders(OLD), **settings)
    assert found is not None

    def step(cuts: tuple[int, ...]) -> int:
        made = Assignment(cuts, old.ranks, old.recompute)
        return simulate(build_pipeline(inputs.value, machine.value, made, 4), orders(OLD)).step_time_ns

    count = inputs.value.num_layers
    assert step(found.cuts) == min(
        step((0, *inner, count)) for inner in combinations(range(1, count), old.num_stages - 1)
    )


def test_a_plan_made_to_bear_noise_bears_it_no_worse() -> None:
    plain, sturdy = planned(profile()), planned(profile(), robust_noise_percent=8.0)
    assert sturdy.request.robust_noise_percent == 8.0
    assert sturdy.predicted.step_time_ns <= plain.predicted.step_time_ns * 1.005
    noise = Noise(profile().value, cluster().value, 8.0, 100, 0)

    def p95(plan: Plan) -> int:
        assignment = assigned(plan)
        timeline = simulate(build_pipeline(profile().value, cluster().value, assignment, 4), orders(plan))
        return quantile(noise.step_times_ns(assignment, timeline), 95)

    assert p95(sturdy) <= p95(plain)
    assert planned(profile(), robust_noise_percent=8.0, jobs=2) == sturdy
