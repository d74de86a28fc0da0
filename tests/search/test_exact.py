"""The exact search of small instances: against every order of every plan, and where it can be worked out by hand."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product

import pytest

from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Loaded
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Action, Request
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.exact import best_plan, is_small
from octopipe_cli.simulate import simulate

from .test_relaxation import flat, layered

UNEVEN = layered(
    ["a", "b", "a"],
    a={"ns": (3, 2, 4), "activation_bytes": 2**30, "output_bytes": 1},
    b={"ns": (5, 1, 7), "activation_bytes": 2**30, "output_bytes": 1},
)


@pytest.mark.parametrize(("p2p", "memory_gib"), [("overlapped", None), ("blocking", None), ("overlapped", 3.5)])
def test_no_order_of_any_plan_is_better(p2p: str, memory_gib: float | None) -> None:
    cluster = flat(2, memory_gib, p2p=p2p, links={"within_node": {"latency_us": 0.002}})
    request = Request(num_microbatches=2, backward="fused", recompute="none")
    found = best_plan(UNEVEN, cluster, request, least_ns=0, most_ns=1000, deterministic_time=2.0)
    assert found.plan is not None
    assert found.optimal
    least = 1 << 62
    for cuts, ranks in PLACED:
        pipeline = build_pipeline(UNEVEN, cluster, Assignment(cuts, ranks, (False,) * len(ranks)), 2)
        held = [tuple(s for s, rank in enumerate(ranks) if rank == r) for r in range(2)]
        for orders in product(*map(every_order, held)):
            try:
                timeline = simulate(pipeline, orders)
            except InvalidPlanError:
                continue
            least = min(least, timeline.step_time_ns if timeline.fits else least)
    assert found.plan[1].step_time_ns == least == found.bound_ns


#: All partitions and placements on two ranks.
PLACED = [
    (cuts, ranks)
    for cuts in ((0, 1, 3), (0, 2, 3), (0, 1, 2, 3))
    for ranks in product((0, 1), repeat=len(cuts) - 1)
    if len(set(ranks)) == 2
]


@cache
def every_order(stages: tuple[int, ...]) -> list[tuple[Action, ...]]:
    """Return the orders of a rank's stages for two micro-batches, which are alike: the first goes first."""
    orders = []
    rows = [(Action(s, "F", 0), Action(s, "F", 1), Action(s, "B", 0), Action(s, "B", 1)) for s in stages]
    for order in permutations([action for row in rows for action in row]):
        at = {action: place for place, action in enumerate(order)}
        if all(at[f0] < at[f1] < at[b1] and at[f0] < at[b0] < at[b1] for f0, f1, b0, b1 in rows):
            orders.append(order)
    return orders


def test_nothing_better_is_proven() -> None:
    """Two layers, four micro-batches: 10 + 4 x 60 is least, so nothing takes less."""
    profile = layered(["a", "a"], a={"ns": (10, 20, 30)})
    request = Request(num_microbatches=4)
    known = {"alike": True, "deterministic_time": 1.0}
    assert best_plan(profile, flat(2), request, least_ns=0, most_ns=249, **known) == (250, True, None)
    found = best_plan(profile, flat(2), request, least_ns=0, most_ns=400, **known)
    assert found.plan is not None
    assert (found.bound_ns, found.plan[1].step_time_ns, found.plan[0].ranks) == (250, 250, (0, 1))


def test_a_launch_is_counted_once_a_stage() -> None:
    """Three layers on two ranks, one stage each: every action is launched once, whatever its layers."""
    profile = layered(["a", "a", "b"], a={"ns": (1, 1, 0)}, b={"ns": (2, 2, 0)})
    request = Request(num_microbatches=2, backward="fused")
    cluster = flat(2, action_overhead_us=0.01)
    found = best_plan(profile, cluster, request, least_ns=0, most_ns=400, deterministic_time=1.0)
    assert found.plan is not None
    # rank 0: F, F, wait, B, B; rank 1: F, B, F, B of 12 ns each, the first after 12, the last B after them
    assert (found.bound_ns, found.plan[1].step_time_ns) == (12 + 4 * 12 + 12, 12 + 4 * 12 + 12)


def test_what_is_small() -> None:
    profile = layered(["a", "a"], a={"ns": (10, 20, 30)})
    assert is_small(profile, flat(2), Request(num_microbatches=4))
    assert not is_small(profile, flat(2), Request(num_microbatches=25))
    assert not is_small(profile, flat(2), Request(num_microbatches=4, engine="torch"))
    assert not is_small(profile, flat(2), Request(num_microbatches=4, placement="cyclic"))
    assert not is_small(profile, flat(2), Request(num_microbatches=4, objective="span"))


def test_a_small_instance_is_planned_to_proven_optimality() -> None:
    """The relaxation says less here; nothing is faster than the plan."""
    inputs = (Loaded(UNEVEN, "profile", "sha256:0"), Loaded(flat(2), "cluster", "sha256:1"))
    request = Request(num_microbatches=2, effort="quick")
    budget = Budget(0.4, 0.1, 0.1, 10_000, ((1, 1, 10_000),), 10_000)
    plan = make_plan(*inputs, request, budget=budget)
    assert plan.bound.step_time_ns == plan.predicted.step_time_ns
    assert plan.bound.argument == "exact"
    assert plan.search.stopped_by == "bound"
