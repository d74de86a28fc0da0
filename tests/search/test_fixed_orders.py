"""Planning for engines: their orders, the best cuts for settled orders, what a stage of theirs runs."""

from __future__ import annotations

import threading
from itertools import combinations_with_replacement
from typing import Any

import pytest

from octopipe_cli.cluster import Cluster
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, one_f_one_b
from octopipe_cli.errors import InfeasibleError, InputError, LimitError
from octopipe_cli.formats import Loaded, digest
from octopipe_cli.list_scheduler import WHOLE
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Plan, Request, parse_orders
from octopipe_cli.profile import Profile, profile_document, profile_from_document
from octopipe_cli.search import make_plan
from octopipe_cli.search.effort import Budget
from octopipe_cli.search.engine_view import engine_profile, engine_request
from octopipe_cli.search.fixed_orders import FixedSearch, fixed_orders, fixed_schedules, rows_of
from octopipe_cli.search.reach import reach_ns
from octopipe_cli.search.tuner import Watch
from octopipe_cli.simulate import simulate

from ..instances import loaded_cluster
from .test_anneal import model
from .test_relaxation import layered

BUDGET = Budget(0.1, 0.05, 0.05, 60_000, ((3, 1, 60_000), (2, 2, 60_000)), 20_000, 2_000_000)


def cluster(count: int = 2, memory_bytes: float | None = None, **more: Any) -> Loaded[Cluster]:
    gib = None if memory_bytes is None else memory_bytes / 2**30
    ranks = [{"count": count, "hardware": "gpu", "memory_gib": gib}]
    return loaded_cluster({"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": ranks, **more})


def engine_model(profile: Profile) -> Profile:
    document = profile_document(profile)
    document["kinds"]["e"]["role"], document["kinds"]["h"]["role"] = "embedding", "head"
    return profile_from_document(document, "p")


def planned(profile: Profile, machine: Loaded[Cluster], microbatches: int = 4, **how: Any) -> Plan:
    made = engine_model(profile)
    loaded = Loaded(made, "p", digest(profile_document(made)))
    return make_plan(loaded, machine, Request(num_microbatches=microbatches, **how), budget=BUDGET)


def search(profile: Profile, machine: Loaded[Cluster], microbatches: int, engine: Any, **how: Any) -> FixedSearch:
    request = engine_request(Request(num_microbatches=microbatches, engine=engine, **how))
    return FixedSearch(profile, machine.value, request, Watch(threading.Event(), None), 1)


def test_the_orders_there_are() -> None:
    schedules = fixed_schedules("megatron", cluster(p2p="overlapped").value)
    orders = fixed_orders(schedules, 2, 5, 9, None, (False,))
    shapes = [(order.stages_per_rank, order.group_size) for order in orders]
    assert shapes[0] == (1, 0)
    assert [size for v, size in shapes if v == 2] == [3, 5]  # 5 mod 2 and 5 mod 4 are 1: above 0, below P
    assert max(v for v, _ in shapes) == 4  # 9 layers
    assert [order.p2p for order in orders[:2]] == ["blocking", "overlapped"]
    assert fixed_schedules("deepspeed", cluster(p2p="blocking").value) == [("1f1b", "blocking")]


@pytest.mark.parametrize("orders", [one_f_one_b(4, 6), interleaved_1f1b(2, 4, 3), interleaved_1f1b(3, 7, 2, 7)])
def test_a_sequence_has_each_action_after_what_it_waits_for(orders: Any) -> None:
    seen = set()
    stages = max(action.stage for actions in orders for action in actions)
    for stage, kind, m in rows_of(orders).tolist():
        back = int(kind == WHOLE)
        assert stage == 0 or back or (stage - 1, 0, m) in seen
        assert not back or ((stage, 0, m) in seen and (stage == stages or (stage + 1, 1, m) in seen))
        seen.add((stage, back, m))
    assert len(seen) == sum(map(len, orders))


@pytest.mark.parametrize("objective", ["step", "span"])
@pytest.mark.parametrize("p2p", ["overlapped", "blocking"])
@pytest.mark.parametrize("links", [False, True])
def test_values_are_the_simulators(objective: Any, p2p: str, links: bool) -> None:
    wires = {"links": {"within_node": {"latency_us": 0.7, "bandwidth_gb_per_s": 1e-3}}} if links else {}
    found = search(model(), cluster(3, p2p=p2p, action_overhead_us=0.1, **wires), 4, "megatron", objective=objective)
    for entry in found.search(400_000):
        timeline = found.timeline(entry)[1]
        assert entry.value == (timeline.step_time_ns if objective == "step" else timeline.span_ns)
        assert timeline.pipeline.p2p == ("blocking" if entry.order.stages_per_rank == 1 else "overlapped")


@pytest.mark.parametrize(("engine", "memory_bytes"), [("megatron", None), ("deepspeed", None), ("megatron", 130)])
def test_no_cuts_are_better(engine: Any, memory_bytes: int | None) -> None:
    profile, machine, microbatches = model(), cluster(2, memory_bytes), 4
    found = search(profile, machine, microbatches, engine, max_stages_per_rank=2).best(3_000_000)
    assert found is not None
    layers = profile.num_layers
    best = None
    for v, orders in ((1, one_f_one_b(2, 4)), (2, interleaved_1f1b(2, 4, 2)), (2, interleaved_1f1b(2, 4, 2, 4))):
        if engine == "deepspeed" and v > 1:
            continue
        p2p = "blocking" if v == 1 and engine == "megatron" else "overlapped"
        for inner in combinations_with_replacement(range(1, layers), 2 * v - 1):
            if engine == "deepspeed" and len(set(inner)) < len(inner):
                continue
            for again in (False, True) if memory_bytes else (False,):
                assignment = Assignment((0, *inner, layers), (0, 1) * v, (again,) * 2 * v)
                pipeline = build_pipeline(profile, machine.value, assignment, microbatches, p2p)  # type: ignore[arg-type]
                timeline = simulate(pipeline, orders)
                if timeline.fits:
                    best = min(best or timeline.step_time_ns, timeline.step_time_ns)
    assert found[1].step_time_ns == best


def test_empty_stages_where_they_pay() -> None:
    """One layer outweighs all others: a stage before it is better left empty than given its share."""
    profile = layered(["e", "a", "a", "h"], e={"ns": (1, 1, 0)}, a={"ns": (1, 1, 0)}, h={"ns": (900, 900, 0)})
    found = search(profile, cluster(2), 4, "megatron", max_stages_per_rank=2)
    values = {entry.order.stages_per_rank: entry for entry in found.search(300_000)}
    assert 2 in values
    assert all(cut >= 1 for entry in values.values() for cut in entry.cuts[1:])


def test_mtp_layers_stay_whole_and_where_megatron_has_them() -> None:
    made = layered(
        ["e", {"repeat": 6, "of": ["a"]}, "m", "m", "h"],
        e={"ns": (1, 1, 0)}, a={"ns": (5, 5, 5)}, m={"ns": (4, 4, 4)}, h={"ns": (9, 9, 9)},
    )  # fmt: skip
    document = profile_document(made)
    document["kinds"]["m"]["role"] = "mtp"
    profile = profile_from_document(document, "p")
    for engine in ("megatron", "megatron-hybrid"):
        for entry in search(profile, cluster(2), 4, engine, max_stages_per_rank=3).search(300_000):
            v = entry.order.stages_per_rank
            stage = sum(cut <= 7 for cut in entry.cuts) - 1
            assert entry.cuts[stage + 1] >= 9  # both MTP layers
            assert stage == 2 * v - 1  # the last chunk of a rank but the first: of two ranks, the last stage


@pytest.mark.parametrize("engine", ["megatron", "megatron-hybrid", "deepspeed", "torch", "torchtitan"])
def test_plans_are_verified_and_repeat(engine: Any) -> None:
    plan = planned(model(), cluster(2, p2p="overlapped"), engine=engine)
    assert plan.bound.scope.startswith(f"any plan for {engine}")
    assert plan.predicted.step_time_ns >= plan.bound.step_time_ns
    assert planned(model(), cluster(2, p2p="overlapped"), engine=engine) == plan
    ranks = [stage.rank for stage in plan.stages]
    if engine != "torch":
        assert ranks == [0, 1] * (len(ranks) // 2) or (engine == "torchtitan" and ranks == [0, 1, 1, 0])
    kinds = {action.kind for actions in parse_orders(plan.orders) for action in actions if action.stage == 0}
    assert kinds == {"F", "B"}  # PyTorch's first stage has no I of its own, the others never split


def test_pytorchs_first_stage_may_not_split_and_nothing_else_changes() -> None:
    profile = model()
    view = engine_profile(profile, "torch")
    assert view.layer_kinds[0] not in profile.kinds
    assert not view.kind_of(0).splittable
    assert view.kind_of(0).times == profile.kind_of(0).times
    assert view.layer_kinds[1:] == profile.layer_kinds[1:]
    assert engine_profile(profile, "megatron") is profile
    assert engine_profile(view, "torch") is view


def test_what_an_engine_cannot_do_is_refused() -> None:
    with pytest.raises(InputError, match="no V placement"):
        planned(model(), cluster(2), engine="megatron", placement="v")
    with pytest.raises(InputError, match="two stages a rank"):
        planned(model(), cluster(2), engine="torchtitan", placement="v", max_stages_per_rank=1)


def test_a_model_the_engine_does_not_know_is_refused() -> None:
    made = layered(["e", "mlp", "mlp", "h"], e={"ns": (1, 1, 0)}, mlp={"ns": (5, 5, 5)}, h={"ns": (2, 2, 2)})
    with pytest.raises(InputError, match="megatron does not run this model: layers of kind"):
        planned(made, cluster(2), engine="megatron")


def test_too_little_memory_for_a_settled_order() -> None:
    with pytest.raises((InfeasibleError, LimitError)):
        planned(model(), cluster(2, 40), microbatches=8, engine="deepspeed", recompute="none")


def test_boundary_tensors_count_in_the_end() -> None:
    """Tensors that wait for their turn are not in the kernel's memory: what the search returns fits all the same."""
    profile = layered(
        ["e", {"repeat": 4, "of": ["a"]}, "h"],
        e={"ns": (900, 900, 0), "output_bytes": 7}, a={"ns": (1000, 1000, 0), "activation_bytes": 4, "output_bytes": 7},
        h={"ns": (1500, 1500, 0)},
    )  # fmt: skip
    fitting = []
    for size in range(20, 90, 2):
        found = search(profile, cluster(2, size), 6, "megatron", recompute="none", max_stages_per_rank=2)
        best = found.best(100_000)
        if best is not None:
            fitting.append(best[1])
    assert fitting
    assert all(timeline.fits for timeline in fitting)


def test_what_pytorchs_runtime_keeps_counts_towards_the_limit() -> None:
    """Boundary tensors to the end of the step: with room for the plan alone there is none for this engine."""
    sizes = {"activation_bytes": 2, "output_bytes": 3}
    made = layered(
        ["e", {"repeat": 4, "of": ["a"]}, "h"],
        e={"ns": (1000, 1000, 0), **sizes}, a={"ns": (2000, 2000, 1000), **sizes}, h={"ns": (2000, 2000, 0), **sizes},
    )  # fmt: skip
    roomy = planned(made, cluster(2, 2000), engine="torch")
    kept = [rank.engine_memory_bytes for rank in roomy.predicted.ranks]
    assert min(kept) >= 2 * 4 * 3  # gradient and activation of a boundary, for each of 4 micro-batches
    for size in (40, 60, 80):
        plain = planned(made, cluster(2, size), engine="any")
        assert max(rank.peak_memory_bytes for rank in plain.predicted.ranks) <= size
        assert all(rank.engine_memory_bytes == 0 for rank in plain.predicted.ranks)
        try:
            tight = planned(made, cluster(2, size), engine="torch")
        except (InfeasibleError, LimitError):
            continue
        assert all(rank.peak_memory_bytes + rank.engine_memory_bytes <= size for rank in tight.predicted.ranks)


def test_a_glance_at_every_engine() -> None:
    made = engine_model(model())
    reached = reach_ns(
        made, cluster(2).value, Request(num_microbatches=4), Assignment((0, 6, 12), (0, 1), (False, False)),
        Watch(threading.Event(), None), 1,
    )  # fmt: skip
    assert list(reached) == ["torch", "torchtitan", "megatron", "megatron-hybrid", "deepspeed"]
    assert reached["torch"] <= reached["deepspeed"]
    assert reached["megatron"] == reached["megatron-hybrid"]
