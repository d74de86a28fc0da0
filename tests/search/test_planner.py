"""Whole searches on small inputs: the same bytes every time, what was asked, and what ends them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InfeasibleError
from octopipe_cli.formats import Document, Loaded, digest
from octopipe_cli.plan import Plan, Request, content_digest, plan_text
from octopipe_cli.profile import Profile, profile_document
from octopipe_cli.search import Progress, make_plan
from octopipe_cli.search.effort import BUDGETS, FULL_SIZE, Budget

from ..instances import loaded_cluster, loaded_profile
from .test_anneal import model

BUDGET = Budget(0.1, 0.05, 0.05, 60_000, ((3, 1, 60_000), (2, 2, 60_000)), 20_000)
LARGER = Budget(0.1, 0.05, 0.05, 600_000, ((3, 1, 600_000), (2, 2, 600_000)), 200_000)

ANOTHER_PROCESS = """
import sys
from tests.search.test_planner import BUDGET, planned
from octopipe_cli.plan import plan_text
sys.stdout.write(plan_text(planned(memory_bytes=90, jobs=2)))
"""


def profile(**rules: Any) -> Loaded[Profile]:
    document: Document = profile_document(model(**rules))
    return Loaded(model(**rules), "profile", digest(document))


def cluster(memory_bytes: float | None = None, **more: Any) -> Loaded[Cluster]:
    gib = None if memory_bytes is None else memory_bytes / 2**30
    ranks = [{"count": 3, "hardware": "gpu", "memory_gib": gib}]
    return loaded_cluster({"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": ranks, **more})


def planned(*, memory_bytes: float | None = None, budget: Budget = BUDGET, rules: Any = None, **how: Any) -> Plan:
    given = {key: how.pop(key) for key in ("jobs", "time_limit_s", "stop", "observer") if key in how}
    request = Request(num_microbatches=4, **how)
    return make_plan(profile(**(rules or {})), cluster(memory_bytes), request, budget=budget, **given)


def ranks_of(plan: Plan) -> list[int]:
    return [stage.rank for stage in plan.stages]


@pytest.mark.parametrize("memory_bytes", [None, 90])
def test_the_same_bytes_with_any_number_of_jobs(memory_bytes: float | None) -> None:
    alone = plan_text(planned(memory_bytes=memory_bytes))
    assert plan_text(planned(memory_bytes=memory_bytes)) == alone
    assert plan_text(planned(memory_bytes=memory_bytes, jobs=2)) == alone


def test_the_same_bytes_in_other_processes() -> None:
    here = plan_text(planned(memory_bytes=90))
    root = Path(__file__).parents[2]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(root)}
        run = subprocess.run(
            [sys.executable, "-c", ANOTHER_PROCESS],
            env=environment,
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        assert run.stdout == here


def test_the_seed_is_part_of_the_request() -> None:
    plan = planned(seed=5)
    assert plan.request.seed == 5
    assert plan.search.reproducible
    assert plan.search.stopped_by in ("effort", "bound")


def test_plans_say_what_they_are() -> None:
    plan = planned()
    assert plan.bound.scope == "any plan"
    assert plan.bound.step_time_ns <= (plan.bound.plan_ns or 0) <= plan.predicted.step_time_ns
    assert plan.bound.gap == pytest.approx(plan.predicted.step_time_ns / plan.bound.step_time_ns - 1)
    assert plan.baseline is not None
    assert plan.baseline.speedup == pytest.approx(plan.baseline.step_time_ns / plan.predicted.step_time_ns)
    assert plan.baseline.speedup >= 1
    assert (plan.inputs.profile.name, plan.inputs.cluster.name) == ("p", "c")
    assert plan.content_digest == content_digest(plan)
    assert ranks_of(plan)[0] == 0  # ranks are alike: numbered as the model meets them


def test_the_span_is_an_objective_of_its_own() -> None:
    step, span = planned(budget=LARGER), planned(budget=LARGER, objective="span")
    assert span.predicted.span_ns <= step.predicted.span_ns
    assert span.bound.span_ns is not None
    assert span.bound.span_ns <= span.predicted.span_ns
    assert span.bound.gap == pytest.approx(span.predicted.span_ns / span.bound.span_ns - 1)


def test_fused_backward() -> None:
    plan = planned(backward="fused")
    kinds = {token.lstrip("0123456789")[0] for order in plan.orders for line in order for token in line.split()}
    assert kinds == {"F", "B"}
    assert plan.bound.scope == "any plan with fused backward"
    assert planned().predicted.step_time_ns <= plan.predicted.step_time_ns


@pytest.mark.parametrize(("recompute", "memory_bytes"), [("none", None), ("full", None), ("none", 120), ("auto", 70)])
def test_recomputation_as_asked(recompute: str, memory_bytes: float | None) -> None:
    plan = planned(recompute=recompute, memory_bytes=memory_bytes)
    marks = {stage.recompute for stage in plan.stages}
    assert {"none": marks == {False}, "full": marks == {True}, "auto": True in marks}[recompute]
    if memory_bytes is not None:
        assert max(rank.peak_memory_bytes for rank in plan.predicted.ranks) <= memory_bytes


@pytest.mark.parametrize("placement", ["cyclic", "v"])
def test_placement_as_asked(placement: str) -> None:
    ranks = ranks_of(planned(placement=placement))
    wanted = [0, 1, 2] * 4 if placement == "cyclic" else [0, 1, 2, 2, 1, 0] * 2
    assert ranks == wanted[: len(ranks)]
    assert len(ranks) >= 3


@pytest.mark.parametrize("most", [1, 2])
def test_most_stages_as_asked(most: int) -> None:
    ranks = ranks_of(planned(max_stages_per_rank=most))
    assert max(map(ranks.count, ranks)) == most


def test_rules_of_the_profile() -> None:
    plan = planned(rules={"same_rank": [[0, 11], [5, 6]], "no_cut_after": [0, 1, 4, 8]})
    rank_of = [stage.rank for stage in plan.stages for _ in range(*stage.layers)]
    assert rank_of[0] == rank_of[11]
    assert rank_of[5] == rank_of[6]
    assert not {stage.layers[1] - 1 for stage in plan.stages} & {0, 1, 4, 8}


@pytest.mark.parametrize("placement", ["cyclic", "v"])
def test_rules_of_the_profile_where_ranks_are_given(placement: str) -> None:
    plan = planned(rules={"same_rank": [[0, 1, 2, 3], [7, 8]]}, placement=placement)
    rank_of = [stage.rank for stage in plan.stages for _ in range(*stage.layers)]
    assert len(set(rank_of[:4])) == 1
    assert rank_of[7] == rank_of[8]


def test_nothing_fits() -> None:
    with pytest.raises(InfeasibleError) as caught:
        planned(memory_bytes=30)
    assert caught.value.exit_code == 3


def test_stopped_before_it_began() -> None:
    stop = threading.Event()
    stop.set()
    began = time.monotonic()
    plan = planned(stop=stop, budget=BUDGETS["thorough"])
    assert time.monotonic() - began < 20
    assert (plan.search.stopped_by, plan.search.reproducible) == ("interrupt", False)


@pytest.mark.parametrize("jobs", [1, 2])
def test_stopped_on_the_way(jobs: int) -> None:
    stop = threading.Event()
    timer = threading.Timer(1.5, stop.set)
    timer.start()
    began = time.monotonic()
    # The floor is met soon on small inputs: many micro-batches of a model that divides badly keep the search going.
    plan = planned(stop=stop, budget=BUDGETS["thorough"], jobs=jobs, memory_bytes=70)
    timer.cancel()
    assert time.monotonic() - began < 20
    assert (plan.search.stopped_by, plan.search.reproducible) == ("interrupt", False)


def test_the_time_limit_is_a_net() -> None:
    began = time.monotonic()
    plan = planned(time_limit_s=1.0, budget=BUDGETS["thorough"], memory_bytes=70)
    assert time.monotonic() - began < 20
    assert (plan.search.stopped_by, plan.search.reproducible) == ("time limit", False)


def test_the_observer_is_told() -> None:
    seen: list[Progress] = []
    plan = planned(observer=seen.append)
    assert seen[-1].best_ns == plan.predicted.step_time_ns
    assert seen[-1].bound_ns == plan.bound.step_time_ns
    assert seen[-1].candidates > 100
    assert [p.seconds for p in seen] == sorted(p.seconds for p in seen)


def test_budgets_by_size() -> None:
    whole = BUDGETS["standard"]
    assert whole.for_size(FULL_SIZE) == whole
    half = whole.for_size(FULL_SIZE // 2)
    assert half.first_work == whole.first_work // 2
    assert half.rounds[0][:2] == whole.rounds[0][:2]
    assert half.bound_time == whole.bound_time


def test_a_shipped_model_is_planned() -> None:
    root = Path(__file__).parents[2] / "profiles"
    document = json.loads((root / "models" / "llama3-8b.json").read_text())
    ranks = json.loads((root / "clusters" / "a100-4.json").read_text())
    plan = make_plan(loaded_profile(document), loaded_cluster(ranks), Request(num_microbatches=16), budget=BUDGET)
    assert plan.baseline is not None
    assert plan.baseline.speedup > 1.05
    assert plan.bound.gap < 0.05
