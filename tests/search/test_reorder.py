"""Ranks in another order along the model."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest

from octopipe_cli.cluster import Cluster
from octopipe_cli.engines import why_not
from octopipe_cli.engines.renumber import along_model
from octopipe_cli.errors import InputError
from octopipe_cli.export import Options, export, notes, target_named
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, Request
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.reorder import best_order, permuted, promising
from octopipe_cli.verify import verify

from ..instances import loaded_cluster
from .test_warm import OLD, loaded, profile

BUDGET = Budget(0.1, 0.05, 0.05, 60_000, ((3, 1, 60_000), (2, 2, 60_000)), 20_000, 2_000_000)
PAIR = {"from": 0, "to": 2, "latency_us": 3.0}


def cluster(*speeds: float, nodes: tuple[int, ...] = (), **links: Any) -> Loaded[Cluster]:
    groups = [
        {"hardware": "gpu", "memory_gib": None, "speed": speed, "node": nodes[at] if nodes else 0}
        for at, speed in enumerate(speeds)
    ]
    return loaded_cluster({"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": groups, "links": links})


def planned(machine: Loaded[Cluster], **how: Any) -> Plan:
    request = Request(**{"num_microbatches": 4, "placement": "cyclic", "max_stages_per_rank": 1, **how})
    return make_plan(profile(), machine, request, budget=BUDGET)


def test_links_go_with_their_ranks() -> None:
    machine = cluster(1, 2, 3, nodes=(0, 0, 1), pairs=[PAIR], between_nodes={"latency_us": 9.0}).value
    order = (2, 0, 1)
    made = permuted(machine, order)
    assert [member.speed for member in made.members] == [3, 1, 2]
    for a in range(3):
        for b in range(3):
            assert made.transfer_ns(5, a, b) == machine.transfer_ns(5, order[a], order[b])


def test_orders_that_make_no_difference_are_looked_at_once() -> None:
    assert promising(cluster(1, 1, 1).value) == [(0, 1, 2)]
    assert promising(cluster(1, 2, 1).value) == [(0, 1, 2), (0, 2, 1), (1, 2, 0)]
    nodes = promising(cluster(1, 1, 1, 1, nodes=(0, 1, 0, 1)).value)
    assert nodes[0] == (0, 1, 2, 3)
    assert (0, 2, 1, 3) in nodes


def test_the_best_order_is_found_by_swaps() -> None:
    machine = cluster(1, 2, 3, 4).value

    def look(made: Cluster) -> int:
        return sum(abs(member.speed - wanted) for member, wanted in zip(made.members, (2, 4, 1, 3), strict=True))  # type: ignore[return-value]

    assert best_order(machine, look, lambda: False) == (1, 3, 0, 2)
    assert best_order(machine, look, lambda: True) == (0, 1, 2, 3)


@pytest.mark.parametrize("engine", ["any", "torchtitan", "megatron", "deepspeed"])
def test_a_plan_in_another_order_is_verified_and_faster(engine: Any) -> None:
    """The head costs most by far: the slow rank is better anywhere than at the end."""
    machine = cluster(1, 1, 0.4)
    plain, plan = planned(machine, engine=engine), planned(machine, engine=engine, reorder_ranks=True)
    assert plan.predicted.step_time_ns < plain.predicted.step_time_ns
    assert plan.rank_order is not None
    assert [stage.rank for stage in plan.stages] == list(plan.rank_order)
    assert plan.rank_order[-1] != 2
    assert [record.rank for record in plan.predicted.ranks] == [0, 1, 2]
    assert "the ranks in this order" in plan.bound.scope
    assert verify(plan, profile(), machine) == []
    best = min(
        planned(Loaded(permuted(machine.value, order), "c", machine.digest), engine=engine).predicted.step_time_ns
        for order in permutations(range(3))
    )
    assert plan.predicted.step_time_ns == best
    bad = msgspec.structs.replace(plan, rank_order=(0, 0, 1), content_digest=None)
    assert "rank-order" in {finding.rule for finding in verify(bad, profile(), machine)}


def test_exports_number_ranks_along_the_model() -> None:
    plan = planned(cluster(1, 1, 0.4), engine="deepspeed", reorder_ranks=True)
    assert why_not(plan, "deepspeed") == []
    along = along_model(plan)
    assert [stage.rank for stage in along.stages] == [0, 1, 2]
    assert along.rank_order is None
    given = Loaded(plan, "p", "sha256:" + "0" * 64)
    target = target_named("deepspeed")
    assert export(given, target, Options()) == export(Loaded(along, "p", given.digest), target, Options())
    said = notes(given, target, Options())[-1]
    assert said.endswith(", ".join(map(str, plan.rank_order or ())))


def test_where_stages_sit_freely_there_is_no_order() -> None:
    plan = planned(cluster(1, 1, 0.4), placement="free", max_stages_per_rank=None, reorder_ranks=True)
    assert plan.rank_order is None
    assert planned(cluster(1, 1, 1), reorder_ranks=True).rank_order is None


def test_no_old_plan_beside_a_new_order() -> None:
    request = Request(num_microbatches=4, placement="cyclic", reorder_ranks=True, warm_start=loaded(OLD).digest)
    with pytest.raises(InputError, match="cannot begin from a plan"):
        make_plan(profile(), cluster(1, 1, 1), request, budget=BUDGET, warm=loaded(OLD))
