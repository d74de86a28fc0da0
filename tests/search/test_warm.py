"""Searches that begin from an old plan, and plans that stay close to it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, digest
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Plan, Request, content_digest, plan_document, plan_text
from octopipe_cli.profile import Profile, profile_document
from octopipe_cli.search import make_plan
from octopipe_cli.search.stability import limit_ns
from octopipe_cli.search.warm import (
    WarmStart,
    labels_as_before,
    moved_layers,
    rank_of_layer,
    relabelled,
    warm_start,
    with_run_put_back,
)

from ..instances import loaded_profile
from .test_anneal import model
from .test_planner import BUDGET, cluster


def profile(head_percent: int = 100, **rules: Any) -> Loaded[Profile]:
    document: Document = profile_document(model(**rules))
    for key, value in document["kinds"]["h"]["times"]["gpu"].items():
        document["kinds"]["h"]["times"]["gpu"][key] = value * head_percent / 100
    document["kinds"]["e"]["role"], document["kinds"]["h"]["role"] = "embedding", "head"
    return loaded_profile(document)


def loaded(plan: Plan, file: str = "old.json") -> Loaded[Plan]:
    return Loaded(plan, file, digest(plan_document(plan)))


def planned(
    inputs: Loaded[Profile], old: Plan | None = None, *, machine: Loaded[Cluster] | None = None, **how: Any
) -> Plan:
    warm = None if old is None else loaded(old)
    jobs, budget = how.pop("jobs", 1), how.pop("budget", BUDGET)
    request = Request(**{"num_microbatches": 4, "warm_start": None if warm is None else warm.digest, **how})
    return make_plan(inputs, machine or cluster(), request, budget=budget, warm=warm, jobs=jobs)


def moved(old: Plan, new: Plan) -> int:
    return moved_layers(assigned(new), rank_of_layer(assigned(old)))


def assigned(plan: Plan) -> Assignment:
    return Assignment(
        (0, *(stage.layers[1] for stage in plan.stages)),
        tuple(stage.rank for stage in plan.stages),
        tuple(stage.recompute for stage in plan.stages),
    )


OLD = planned(profile())


def test_an_old_plan_leaves_its_digest_in_the_request_and_others_nothing() -> None:
    new = planned(profile(110), OLD)
    assert new.request.warm_start == digest(plan_document(OLD))
    assert new.content_digest == content_digest(new)
    assert json.loads(plan_text(new))["request"]["warm_start"] == new.request.warm_start
    assert not {"warm_start", "stability_percent"} & set(json.loads(plan_text(OLD))["request"])


@pytest.mark.parametrize("memory_bytes", [None, 90])
def test_the_same_bytes_with_any_number_of_jobs(memory_bytes: float | None) -> None:
    machine = cluster(memory_bytes)
    old = planned(profile(), machine=machine)
    one = planned(profile(110), old, machine=machine, stability_percent=1.0)
    assert plan_text(planned(profile(110), old, machine=machine, stability_percent=1.0, jobs=2)) == plan_text(one)


def test_on_its_own_inputs_the_old_plan_stays_where_nothing_better_is_found() -> None:
    new = planned(profile(), OLD)
    assert new.predicted.step_time_ns <= OLD.predicted.step_time_ns
    if new.predicted.step_time_ns == OLD.predicted.step_time_ns:
        assert moved(OLD, new) == 0


@pytest.mark.parametrize("percent", [70, 105, 120])
def test_never_worse_than_the_old_orders_on_the_new_inputs(percent: int) -> None:
    inputs = profile(percent)
    begun = warm_start(loaded(OLD), inputs.value, cluster().value, Request(num_microbatches=4))
    replayed = begun.timeline(inputs.value, cluster().value, 4)
    assert replayed is not None
    assert planned(inputs, OLD).predicted.step_time_ns <= replayed.step_time_ns


@pytest.mark.parametrize("head", [105, 130])
@pytest.mark.parametrize("stability", [0.5, 2.0, 10.0])
def test_stability_trades_time_for_fewer_moved_layers(head: int, stability: float) -> None:
    inputs = profile(head)
    fast, steady = planned(inputs, OLD), planned(inputs, OLD, stability_percent=stability)
    assert moved(OLD, steady) <= moved(OLD, fast)
    assert steady.predicted.step_time_ns <= limit_ns(fast.predicted.step_time_ns, stability)
    assert steady.request.stability_percent == stability


def test_with_much_stability_nothing_moves() -> None:
    inputs = profile(130)
    assert moved(OLD, planned(inputs, OLD)) > 0
    steady = planned(inputs, OLD, stability_percent=100.0)
    assert moved(OLD, steady) == 0
    assert assigned(steady) == assigned(OLD)


def test_another_number_of_microbatches_takes_the_partition_alone() -> None:
    new = planned(profile(), OLD, num_microbatches=6, stability_percent=100.0)
    assert moved(OLD, new) == 0
    assert new.request.num_microbatches == 6


def test_memory_that_the_old_plan_does_not_fit() -> None:
    tight = planned(profile(), OLD, machine=cluster(90))
    assert max(rank.peak_memory_bytes for rank in tight.predicted.ranks) <= 90


def test_recomputation_is_the_new_request_s() -> None:
    assert all(stage.recompute for stage in planned(profile(), OLD, recompute="full", stability_percent=100.0).stages)


def test_a_fused_backward_takes_no_split_orders() -> None:
    begun = warm_start(loaded(OLD), profile().value, cluster().value, Request(num_microbatches=4, backward="fused"))
    assert begun.orders is None
    assert all(begun.fused)


def refused(plan: Plan, inputs: Loaded[Profile] | None = None, **request: Any) -> InputError:
    given = Request(num_microbatches=4, **request)
    with pytest.raises(InputError) as caught:
        warm_start(loaded(plan), (inputs or profile()).value, cluster().value, given)
    assert (caught.value.file, caught.value.exit_code) == ("old.json", 2)
    return caught.value


def test_a_plan_of_other_layers_ranks_or_rules_is_refused() -> None:
    shorter: Document = profile_document(model())
    shorter["layers"] = ["e", {"repeat": 4, "of": ["a", "b"]}, "h"]
    assert "other layers" in refused(planned(loaded_profile(shorter))).message
    two = cluster()
    ranks = [{"count": 2, "hardware": "gpu", "memory_gib": None}]
    two = Loaded(msgspec.convert({**msgspec.to_builtins(two.value), "ranks": ranks}, Cluster), "c", two.digest)
    assert "other ranks" in refused(planned(profile(), machine=two)).message
    cut = OLD.stages[0].layers[1] - 1
    assert f"after layer {cut}" in refused(OLD, profile(no_cut_after=[cut])).message
    on = rank_of_layer(assigned(OLD))
    apart = next(layer for layer, rank in enumerate(on) if rank != on[0])
    assert "must share a rank" in refused(OLD, profile(same_rank=[[0, apart]])).message


def test_a_plan_that_is_placed_otherwise_is_refused() -> None:
    v = planned(profile(), placement="v", max_stages_per_rank=2)
    assert "requested (cyclic)" in refused(v, placement="cyclic").message
    assert "more than the 1 stages" in refused(v, max_stages_per_rank=1).message
    assert warm_start(loaded(v), profile().value, cluster().value, Request(num_microbatches=4, placement="v"))


def test_a_plan_that_does_not_hold_is_refused() -> None:
    assert refused(msgspec.structs.replace(OLD, orders=[[], *OLD.orders[1:]])).path == "$.orders[0]"


def test_ranks_keep_the_numbers_of_those_they_share_most_layers_with() -> None:
    new = Assignment((0, 3, 5, 8), (2, 0, 1), (False,) * 3)
    before = [0, 0, 0, 1, 1, 1, 2, 2]
    labels = labels_as_before(new, before, 4)
    assert labels == [1, 2, 0, 3]  # rank 2 held 0's layers, rank 0 two of 1's, rank 1 two of 2's; 3 is new to both
    assert moved_layers(relabelled(new, labels), before) == 1


def test_runs_of_moved_layers_are_put_back_with_their_cuts() -> None:
    old = Assignment((0, 2, 4, 6, 8), (0, 1, 0, 1), (True, False, False, False))
    new = Assignment((0, 3, 6, 8), (0, 1, 0), (False, False, False))
    # Layer 2 moved from rank 1 to 0, layers 4 and 5 from 0 to 1, layers 6 and 7 from 1 to 0.
    made = with_run_put_back(new, old)
    assert [(each.cuts, each.ranks) for each in made] == [
        ((0, 2, 6, 8), (0, 1, 0)),
        ((0, 3, 4, 8), (0, 1, 0)),
        ((0, 3, 8), (0, 1)),
    ]
    for each in made:
        assert all(a < b for a, b in pairwise(each.cuts))
        assert moved_layers(each, rank_of_layer(old)) < moved_layers(new, rank_of_layer(old))


def test_the_limit_is_exact() -> None:
    assert limit_ns(1000, 1.0) == 1010
    assert limit_ns(2**60, 0.1) == 2**60 + 2**60 // 1000
    assert limit_ns(999, 0.1) == 999


def test_orders_that_the_new_inputs_do_not_admit_are_left_out() -> None:
    begun = warm_start(loaded(OLD), profile().value, cluster().value, Request(num_microbatches=4))
    document: Document = profile_document(model())
    for kind in document["kinds"].values():
        kind["splittable"] = False
    whole = loaded_profile(document).value
    assert isinstance(begun, WarmStart)
    assert begun.timeline(whole, cluster().value, 4) is None
    assert begun.timeline(profile().value, cluster(20).value, 4) is None


@pytest.mark.parametrize("engine", ["torch", "torchtitan", "megatron", "megatron-hybrid", "deepspeed"])
def test_engines_begin_from_their_own_plans_and_stay_close(engine: str) -> None:
    old = planned(profile(), engine=engine)
    fast = planned(profile(130), old, engine=engine)
    steady = planned(profile(130), old, engine=engine, stability_percent=100.0)
    assert moved(old, steady) == 0 <= moved(old, fast)
    assert steady.predicted.step_time_ns >= fast.predicted.step_time_ns
    again = planned(profile(), old, engine=engine)
    assert again.predicted.step_time_ns <= old.predicted.step_time_ns


@pytest.mark.parametrize("engine", ["torch", "torchtitan", "megatron", "deepspeed"])
def test_an_engine_takes_another_s_plan_by_its_stages_alone_or_refuses_it(engine: str) -> None:
    old = planned(profile(), placement="cyclic", max_stages_per_rank=1)
    new = planned(profile(), old, engine=engine, stability_percent=100.0)
    assert moved(old, new) == 0
    if engine in ("megatron", "deepspeed"):
        free = msgspec.structs.replace(old.stages[0], rank=1), msgspec.structs.replace(old.stages[1], rank=0)
        orders = [old.orders[1], old.orders[0], *old.orders[2:]]
        other = msgspec.structs.replace(old, stages=[*free, *old.stages[2:]], orders=orders)
        assert "placed as requested" in refused(other, engine=engine, placement="cyclic").message
